package api_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/api"
)

// unread returns the server's side of a connection whose client has not read yet, full of unread bytes, their number, and the client's side.
func unread(t *testing.T) (conn net.Conn, n int64, client net.Conn) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := api.NewListener(inner, slog.New(slog.DiscardHandler))
	defer l.Close()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
	}}
	if client, err = dialer.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if conn, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("x"), 4096)
	if err := raw.Write(func(fd uintptr) bool {
		for {
			part, err := unix.Write(int(fd), text)
			if err != nil {
				return true
			}
			n += int64(part)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return conn, n, client
}

// The kernel keeps little for a client that does not read.
func TestUnreadIsBounded(t *testing.T) {
	if _, n, _ := unread(t); n > 160<<10 {
		t.Errorf("%d KiB wait for a client that reads nothing", n>>10)
	}
}

// A client that did not read in time is reset, so that the kernel keeps nothing for it. Any other receives everything.
func TestLateClientIsReset(t *testing.T) {
	for name, write := range map[string]func(*testing.T, net.Conn) error{
		"in time": nil,
		"late": func(_ *testing.T, conn net.Conn) error {
			_, err := conn.Write([]byte("x"))
			return err
		},
		"late for a file": func(t *testing.T, conn net.Conn) error {
			name := t.TempDir() + "/file"
			if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			_, err = io.Copy(conn, file)
			return err
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			conn, n, client := unread(t)
			var want error
			if write != nil {
				want = syscall.ECONNRESET
				if err := conn.SetWriteDeadline(time.Unix(1, 0)); err != nil {
					t.Fatal(err)
				}
				if err := write(t, conn); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			got, err := io.Copy(io.Discard, client)
			if !errors.Is(err, want) || want == nil && got != n {
				t.Errorf("%d of %d bytes, %v", got, n, err)
			}
		})
	}
}
