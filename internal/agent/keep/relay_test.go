//go:build linux

package keep

import (
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/sockdir"
)

// The reply of an agent that closes the stream while the host still writes arrives: refusals work that way.
func TestAnswerBehindWrites(t *testing.T) {
	dial := refusing(t, make([]byte, 100<<10))
	for range 50 {
		conn := dial()
		go func() {
			for {
				if _, err := conn.Write(make([]byte, 4<<10)); err != nil {
					return
				}
			}
		}()
		got := make([]byte, 100<<10)
		if n, err := io.ReadFull(conn, got); err != nil {
			t.Fatalf("%d bytes of the answer, %v", n, err)
		}
		conn.Close()
	}
}

// A host may write all its data before it reads. An agent that has closed the stream after a reply larger than the sockets'
// buffers does not block that.
func TestWritesBeforeAnswer(t *testing.T) {
	const size = 240 << 10
	conn := refusing(t, make([]byte, size))()
	defer conn.Close()
	_, _ = conn.Write(make([]byte, 4<<20)) // may fail
	if n, err := io.Copy(io.Discard, conn); n != size {
		t.Errorf("%d bytes of the answer, %v", n, err)
	}
}

// refusing relays to an agent that answers the first byte of each stream and closes it. It returns a host's dial.
func refusing(t *testing.T, answer []byte) (dial func() net.Conn) {
	outside, inside := net.Pipe()
	agent := wire.NewMuxAgent(inside)
	t.Cleanup(func() { agent.Close() })
	host := wire.NewMuxHost(outside)
	t.Cleanup(func() { outside.Close() })
	go func() {
		for {
			stream, err := agent.Accept()
			if err != nil {
				return
			}
			go func() {
				defer stream.Close()
				if _, err := stream.Read(make([]byte, 1)); err == nil {
					_, _ = stream.Write(answer)
				}
			}()
		}
	}()
	l, err := net.Listen("unix", filepath.Join(sockdir.New(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go relay(l, host)
	return func() net.Conn {
		conn, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
}
