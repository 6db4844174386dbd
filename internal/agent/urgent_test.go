package agent_test

import (
	"errors"
	"net"
	"testing"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
)

// An agent whose connections take all streams of a multiplexer that requests can have still answers pings.
func TestPingPastStreams(t *testing.T) {
	ours, theirs := net.Pipe()
	host, inside := wire.NewMuxHost(ours), wire.NewMuxAgent(theirs)
	t.Cleanup(func() { _ = errors.Join(host.Close(), inside.Close()) })
	for range wire.MaxMuxStreams - wire.MuxReserved {
		if _, err := host.Dial(within(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := inside.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := inside.Accept()
		if err != nil {
			return // the ping has failed
		}
		defer conn.Close()
		serve(t, conn, answer(wire.Reply{Info: &wire.Info{Pid: 1}}))
	}()
	if info, err := agent.New(host.Dial).Ping(within(t)); err != nil || info.Pid != 1 {
		t.Errorf("%+v, %v", info, err)
		inside.Close()
	}
	<-served
}
