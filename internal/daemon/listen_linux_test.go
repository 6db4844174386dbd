package daemon

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/test/sockdir"
)

// TestListen: a socket without a listener is replaced, and that of a server which is too busy to accept is not.
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
