package box_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/box"
)

// The cancelled start of a command fails only after the agent's reply: until then the agent may not know the command, and Box.End could not
// end it. An agent that does not reply delays it only a little.
func TestCancelledStart(t *testing.T) {
	for name, replies := range map[string]bool{"an agent that replies": true, "an agent that does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host, inside := net.Pipe()
				defer inside.Close()
				b := &box.Box{Agent: agent.New(func(context.Context) (net.Conn, error) { return host, nil })}
				ctx, cancel := context.WithCancelCause(t.Context())
				why := errors.New("cancelled")
				ended := make(chan error, 1)
				go func() {
					_, err := b.Exec(ctx, wire.Exec{ID: "x"}, "")
					ended <- err
				}()
				r, w := wire.NewReader(inside), wire.NewWriter(inside)
				for range 2 { // the hello and the request
					if _, err := r.Read(); err != nil {
						t.Fatal(err)
					}
				}
				cancel(why)
				synctest.Wait()
				select {
				case err := <-ended:
					t.Fatalf("it has ended already: %v", err)
				default:
				}
				if replies {
					w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version})
					w.JSON(wire.KindReply, wire.Reply{Started: &wire.Started{}})
				}
				begun := time.Now()
				if err := <-ended; !errors.Is(err, why) {
					t.Errorf("%v", err)
				}
				if took := time.Since(begun); replies && took > 0 || took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
