package api_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/api"
)

// connect returns the server's side of a connection, and that of its client, whose kernel receives little before it reads.
func connect(t *testing.T) (conn, client net.Conn) {
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
	return conn, client
}

// unread returns the server's side of a connection whose client has not read yet, full of unread bytes, their number, and the client's side.
func unread(t *testing.T) (conn net.Conn, n int64, client net.Conn) {
	t.Helper()
	conn, client = connect(t)
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

// A close during a write resets the connection, too: it is how the write of a WebSocket's message ends that takes too long.
func TestCloseDuringAWriteResets(t *testing.T) {
	text := make([]byte, 8<<20) // more than the kernel takes
	for name, write := range map[string]func(net.Conn) error{
		"plain": func(to net.Conn) error {
			_, err := to.Write(text)
			return err
		},
		"copy": func(to net.Conn) error {
			_, err := to.(io.ReaderFrom).ReadFrom(bytes.NewReader(text))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, client := connect(t)
			closeDuring(t, conn, client, client, write)
		})
	}
	t.Run("tls", func(t *testing.T) {
		known := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
		defer known.Close()
		trusted := known.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		trusted.ServerName = "example.com"
		conn, raw := connect(t)
		after := &followed{Conn: conn}
		server, client := tls.Server(after, known.TLS), tls.Client(raw, trusted)
		shaken := make(chan error, 1)
		go func() { shaken <- server.Handshake() }()
		if err := errors.Join(client.Handshake(), <-shaken); err != nil {
			t.Fatal(err)
		}
		after.text = text
		closeDuring(t, server, client, raw, func(to net.Conn) error {
			_, err := to.Write([]byte("x"))
			return err
		})
	})
}

// followed writes text after all else, in one write: a record alone could fit into the kernel.
type followed struct {
	net.Conn
	text []byte
}

func (c *followed) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(append(slices.Clip(b), c.text...))
	return min(n, len(b)), err
}

// closeDuring closes conn during write. raw is the TCP connection of its client.
func closeDuring(t *testing.T, conn, client, raw net.Conn, write func(net.Conn) error) {
	t.Helper()
	wrote := make(chan error, 1)
	go func() { wrote <- write(conn) }()
	if _, err := io.ReadFull(client, make([]byte, 1)); err != nil { // the write is in progress
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := <-wrote; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the write: %v", err)
	}
	if n, err := io.Copy(io.Discard, raw); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%d bytes, %v", n, err)
	}
}
