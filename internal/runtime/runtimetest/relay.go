package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
)

// relayHost is a host that answers an agent's questions: for names that end in .allowed, and connections to them.
type relayHost struct {
	j     *jar
	relay *agent.Relay
	serve func(*agent.Conn, wire.Open)
	ended chan struct{}
	conns sync.WaitGroup

	mu   sync.Mutex
	asks []wire.Ask
}

// testPorts are those of the relays under test.
var testPorts = []uint16{80, 443, 8443}

// relayed opens a relay. serve serves each connection, and has it closed.
func (j *jar) relayed(serve func(*agent.Conn, wire.Open)) *relayHost {
	j.Helper()
	r, err := j.agent.Relay(j.ctx, testPorts)
	if err != nil {
		j.Fatalf("relay: %v", err)
	}
	h := &relayHost{j: j, relay: r, serve: serve, ended: make(chan struct{})}
	go h.run()
	j.Cleanup(h.close)
	return h
}

func (h *relayHost) close() {
	h.relay.Close()
	<-h.ended
	h.conns.Wait()
}

func (h *relayHost) run() {
	defer close(h.ended)
	for {
		ask, err := h.relay.Next()
		if err != nil {
			if !errors.Is(err, agent.ErrDisconnected) {
				h.j.Errorf("the relay ended: %v", err)
			}
			return
		}
		h.mu.Lock()
		h.asks = append(h.asks, ask)
		h.mu.Unlock()
		name := ask.Name
		if ask.Open != nil {
			name = ask.Open.Host
		}
		answer := wire.Answer{ID: ask.ID, OK: strings.HasSuffix(name, ".allowed") || name == "203.0.113.7", Missing: strings.HasSuffix(name, ".missing")}
		if !answer.OK {
			answer.Reason = "no_match"
		}
		if ask.Open != nil && answer.OK && ask.Open.Host != "closed.allowed" {
			h.conns.Go(func() { h.accept(ask) })
			continue
		}
		if ask.Open != nil {
			answer.OK = false
		}
		if err := h.relay.Answer(answer); err != nil {
			return
		}
	}
}

func (h *relayHost) accept(ask wire.Ask) {
	c, err := h.j.agent.Accept(h.j.ctx, ask.ID)
	if err != nil {
		if h.j.ctx.Err() == nil && codeOf(err) != wire.CodeNotFound {
			h.j.Errorf("accept: %v", err)
		}
		return
	}
	defer c.Close()
	h.serve(c, *ask.Open)
}

// asked returns the questions so far.
func (h *relayHost) asked() []wire.Ask {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]wire.Ask(nil), h.asks...)
}

// echo sends back what the program sends, and a word after its end.
func echo(c *agent.Conn, _ wire.Open) {
	if _, err := io.Copy(c, c); err == nil {
		fmt.Fprint(c, "goodbye")
	}
}

// net runs test/net with arguments.
func (j *jar) net(stdin string, args ...string) string {
	j.Helper()
	got := j.run(j.netCommand(stdin, args...))
	line, _, ok := strings.Cut(strings.TrimSpace(got.out), " in ")
	if got.exit.Code != 0 || !ok {
		j.Fatalf("net %q: %+v, stdout %.300q, stderr %.300q", args, got.exit, got.out, got.err)
	}
	return line
}

func (j *jar) netCommand(stdin string, args ...string) wire.Exec {
	return j.sh(`text=$1; shift; printf %s "$text" | ./net "$@"`, append([]string{stdin}, args...)...)
}

// withNet puts test/net into the workspace.
func withNet(t *testing.T, o Options) *jar {
	t.Helper()
	j := open(t, o)
	program, err := os.Open(o.Net)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	f := j.file("net")
	f.Mode = 0o755
	if _, err := j.agent.WriteFile(j.ctx, f, program); err != nil {
		t.Fatal(err)
	}
	return j
}

func testRelay(t *testing.T, o Options) {
	if !o.Isolated {
		j := open(t, o)
		if _, err := j.agent.Relay(j.ctx, testPorts); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a relay of a sandbox without walls: %v", err)
		}
		_, err := j.agent.Connect(j.ctx, 22)
		j.refused("connect", err, wire.CodeUnsupported)
		return
	}
	withNet(t, o).sub("names", relayNames)
}

func relayNames(j *jar) {
	j.relayed(echo)
	j.equal("an allowed name", j.net("", "lookup", "one.allowed"), "127.64.0.2")
	j.equal("talk", j.net("hello", "talk", "one.allowed:80"), `"hellogoodbye"`)
}

func (j *jar) equal(what, got, want string) {
	j.Helper()
	if got != want {
		j.Errorf("%s: %s, want %s", what, got, want)
	}
}

var _ = context.Background
