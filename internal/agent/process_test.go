package agent_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
)

// Forget returns even if the agent reads nothing.
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

// A hijacked agent sends tiny frames, which cost its host more than the sandbox. The host limits how many it reads per second, over all
// streams.
func TestTinyFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, frames = 2, 30_000
		c := agent.New(func(context.Context) (net.Conn, error) {
			host, inside := net.Pipe()
			go func() {
				defer inside.Close()
				out := bufio.NewWriter(inside)
				r, w := wire.NewReader(inside), wire.NewWriter(out)
				for range 2 { // the hello and the request
					if _, err := r.Read(); err != nil {
						t.Error(err)
					}
				}
				w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version})
				w.JSON(wire.KindReply, wire.Reply{Started: &wire.Started{}})
				for range frames {
					w.Output(0, wire.Stdout, nil)
				}
				w.JSON(wire.KindReply, wire.Reply{Exit: &wire.Exit{}})
				out.Flush()
			}()
			return host, nil
		})
		begun := time.Now()
		done := make(chan error, streams)
		for range streams {
			go func() {
				p, err := c.Exec(t.Context(), wire.Exec{ID: "x"})
				if err == nil {
					defer p.Close()
					_, err = p.Output(t.Context(), ignore)
				}
				done <- err
			}()
		}
		for range streams {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begun); took < 490*time.Millisecond || took > time.Second {
			t.Errorf("%d frames took %v", streams*frames, took)
		}
	})
}

// An agent's report of a command's end is validated before it is stored.
func TestEndThatCannotBe(t *testing.T) {
	for name, exit := range map[string]wire.Exit{
		"time": {WallMS: 1e308}, "negative time": {WallMS: -1}, "status": {Code: 256}, "signal": {Signal: -129}, "dropped": {Dropped: -1},
		"cause": {Cause: "\x1b[2J"}, "cwd": {Cwd: strings.Repeat("/x", 8192)}, "source": {Usage: wire.Usage{Source: strings.Repeat("x", 1<<20)}},
		"CPU time": {WallMS: 1, Usage: wire.Usage{UserMicros: 1 << 63}}, "CPU time of a short command": {WallMS: 1, Usage: wire.Usage{SystemMicros: 1e12}},
		"CPU time of a shell": {Shell: &wire.ShellExit{Program: "bash"}, Usage: wire.Usage{UserMicros: 1 << 63}}, "memory": {Usage: wire.Usage{MaxRSS: 1<<50 + 1}},
		"program": {Shell: &wire.ShellExit{Program: strings.Repeat("x", 1<<20)}},
	} {
		p := process(t, wire.Started{}, func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) {
			w.JSON(wire.KindReply, wire.Reply{Exit: &exit})
		})
		if _, err := p.Output(within(t), ignore); !errors.Is(err, agent.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A shell's CPU time includes that of a job that began long before the command.
func TestEndOfAShellsOldJob(t *testing.T) {
	p := process(t, wire.Started{}, func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) {
		w.JSON(wire.KindReply, wire.Reply{Exit: &wire.Exit{WallMS: 1, Usage: wire.Usage{UserMicros: 1e12}, Shell: &wire.ShellExit{Program: "bash"}}})
	})
	if _, err := p.Output(within(t), ignore); err != nil {
		t.Error(err)
	}
}

// A folder may have any name that the kernel allows. Each byte that is not UTF-8 becomes a character of three bytes in JSON.
func TestEndInAFolderOfAnyName(t *testing.T) {
	cwd := strings.Repeat("/"+strings.Repeat("\xff", 255), 15)
	p := process(t, wire.Started{}, func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) {
		w.JSON(wire.KindReply, wire.Reply{Exit: &wire.Exit{Cause: wire.CauseExited, Cwd: cwd, Shell: &wire.ShellExit{Program: "bash"}}})
	})
	if exit, err := p.Output(within(t), ignore); err != nil || exit.Cwd != strings.ToValidUTF8(strings.ReplaceAll(cwd, "\xff", "\ufffd"), "") {
		t.Errorf("%.100q, %v", exit.Cwd, err)
	}
}
