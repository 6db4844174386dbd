//go:build linux

package relay_test

import (
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
)

// A connection with the host behaves like TCP: deadlines lose no bytes, each direction ends on its own, and there are
// resets.
func TestRelayConn(t *testing.T) {
	c := start(t)
	l, err := net.Listen("tcp", "127.0.0.1:3000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pair := func() (*agent.Conn, *net.TCPConn) {
		t.Helper()
		host, err := c.Connect(within(t), 3000)
		if err != nil {
			t.Fatal(err)
		}
		program, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { host.Close(); program.Close() })
		return host, program.(*net.TCPConn)
	}
	t.Run("deadline", func(t *testing.T) {
		host, program := pair()
		host.SetReadDeadline(time.Now().Add(-time.Second))
		if _, err := host.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		host.SetReadDeadline(time.Time{})
		io.WriteString(program, "late")
		got := make([]byte, 4)
		if _, err := io.ReadFull(host, got); string(got) != "late" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("close", func(t *testing.T) {
		host, program := pair()
		if _, err := io.WriteString(host, "last words"); err != nil {
			t.Fatal(err)
		}
		host.Close()
		host.Close()
		if got, err := io.ReadAll(program); string(got) != "last words" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := host.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read of a closed connection: %v", err)
		}
	})
	t.Run("close while the program writes", func(t *testing.T) {
		host, program := pair()
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = io.Copy(program, rand.Reader) // until the host closes
		}()
		const size = 8 << 20
		answered := make(chan error, 1)
		go func() {
			_, err := io.CopyN(host, rand.Reader, size)
			host.Close()
			answered <- err
		}()
		// A program that has read everything may see a reset, as with TCP: it still writes.
		if n, err := io.Copy(io.Discard, program); n != size {
			t.Errorf("%d of %d bytes of the answer, %v", n, size, err)
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
		program.Close()
		<-written
	})
	t.Run("close write", func(t *testing.T) {
		host, program := pair()
		if err := host.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(program); len(got) != 0 || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		io.WriteString(program, "still here")
		program.Close()
		if got, err := io.ReadAll(host); string(got) != "still here" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := host.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write after the end: %v", err)
		}
	})
	t.Run("close wakes", func(t *testing.T) {
		host, _ := pair()
		read := make(chan error)
		go func() {
			_, err := host.Read(make([]byte, 1))
			read <- err
		}()
		host.Close()
		if err := <-read; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	t.Run("abort", func(t *testing.T) {
		host, program := pair()
		host.Abort()
		if _, err := program.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			t.Error(err)
		}
	})
	t.Run("reset", func(t *testing.T) {
		host, program := pair()
		program.SetLinger(0)
		program.Close()
		if _, err := host.Read(make([]byte, 1)); !errors.Is(err, agent.ErrDisconnected) {
			t.Error(err)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		var refused *wire.Error
		if _, err := c.Accept(within(t), 99); !errors.As(err, &refused) || refused.Code != wire.CodeNotFound {
			t.Error(err)
		}
		if _, err := c.Connect(within(t), 3001); !errors.As(err, &refused) || refused.Code != wire.CodeNotFound {
			t.Error(err)
		}
		if _, err := c.Relay(within(t), []uint16{0}); !errors.As(err, &refused) || refused.Code != wire.CodeInvalid {
			t.Error(err)
		}
	})
}
