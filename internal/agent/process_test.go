package agent_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
)

// Forget returns also if the agent reads nothing.
func TestForgetOfADeafAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, inside := net.Pipe()
		defer inside.Close()
		go func() {
			r, w := wire.NewReader(inside), wire.NewWriter(inside)
			for range 2 { // the hello and the request
				if _, err := r.Read(); err != nil {
					t.Error(err)
				}
			}
			w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version, Features: []string{wire.FeatureForget}})
			w.JSON(wire.KindReply, wire.Reply{Started: &wire.Started{}})
			w.JSON(wire.KindReply, wire.Reply{Exit: &wire.Exit{}})
		}()
		p, err := agent.New(func(context.Context) (net.Conn, error) { return host, nil }).Exec(t.Context(), wire.Exec{ID: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Output(t.Context(), func(int64, wire.Stream, []byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := p.Forget(); err == nil {
			t.Error("an agent that reads nothing has forgotten a command")
		}
	})
}
