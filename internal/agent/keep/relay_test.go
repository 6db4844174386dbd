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

// A reply of an agent that closes the stream while the host still writes arrives: refusals work that way.
func TestAnswerBehindWrites(t *testing.T) {
	outside, inside := net.Pipe()
	agent := wire.NewMuxAgent(inside)
	defer agent.Close()
	host := wire.NewMuxHost(outside)
	defer outside.Close()
	go func() {
		for {
			stream, err := agent.Accept()
			if err != nil {
				return
			}
			go func() {
				defer stream.Close()
				if _, err := stream.Read(make([]byte, 1)); err == nil {
					_, _ = stream.Write(answer())
				}
			}()
		}
	}()
	l, err := net.Listen("unix", filepath.Join(sockdir.New(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go relay(l, host)
	for range 50 {
		conn, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				if _, err := conn.Write(make([]byte, 4<<10)); err != nil {
					return
				}
			}
		}()
		got := make([]byte, len(answer()))
		if n, err := io.ReadFull(conn, got); err != nil {
			t.Fatalf("%d bytes of the answer, %v", n, err)
		}
		conn.Close()
	}
}

func answer() []byte { return make([]byte, 100<<10) }
