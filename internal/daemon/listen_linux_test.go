package daemon

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/pty"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/test/sockdir"
)

// A terminal whose program was started by a service manager is not a journal: the server prints the key there.
func TestAnnounceOnTerminal(t *testing.T) {
	master, slave, err := pty.Open(wire.Size{Cols: 200, Rows: 25})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(master)
	terminal := os.NewFile(uintptr(slave), "terminal")
	defer terminal.Close()
	h := New(Options{Environment: local.Environment{Env: []string{"JOURNAL_STREAM=8:1"}, Stderr: terminal}})
	if err := announce(t.Context(), h, false, &config.Config{}, &server{madeKey: "blj_secret", keyFile: "/data/api-key"}, "http://127.0.0.1:80"); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for piece := make([]byte, 4096); !strings.Contains(got.String(), "hint: "); { // the last line
		n, err := unix.Read(master, piece)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(piece[:n])
	}
	if !strings.Contains(got.String(), "API key blj_secret") {
		t.Error(got.String())
	}
}

// TestListen: a socket without a listener is replaced. The socket of a server that is too busy to accept is
// not.
func TestListen(t *testing.T) {
	path := filepath.Join(sockdir.New(t), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	server := os.NewFile(uintptr(fd), path)
	defer server.Close()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for {
		waiting, err := net.Dial("unix", path)
		if err != nil { // the backlog is full
			break
		}
		defer waiting.Close()
	}
	if l, err := listen("unix:" + path); err == nil {
		l.Close()
		t.Error("it took the socket of a live server")
	}
	server.Close()
	l, err := listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
