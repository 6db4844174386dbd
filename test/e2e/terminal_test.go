//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/test/tier"
)

// screen is a client that follows a terminal of a server.
type screen struct {
	belljar.Attachment
	t    *testing.T
	seen []byte
}

func (s *server) client() *client.Client {
	s.t.Helper()
	c, err := client.New(client.Options{URL: s.URL, APIKey: s.Key})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// session makes a session.
func (s *server) session(c *client.Client, change func(*belljar.SessionSpec)) belljar.Session {
	s.t.Helper()
	spec := belljar.SessionSpec{SpecVersion: belljar.SpecVersion, BaseImage: "host"}
	if change != nil {
		change(&spec)
	}
	x, err := c.Sessions().Create(s.t.Context(), belljar.SessionRequest{SessionSpec: spec})
	if err != nil {
		s.t.Fatal(err)
	}
	return x
}

// watch attaches to a terminal.
func (s *server) watch(c *client.Client, id string) *screen {
	s.t.Helper()
	a, err := c.Terminals().Attach(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return &screen{Attachment: a, t: s.t}
}

func (s *screen) typed(text string) {
	s.t.Helper()
	if err := s.Write(s.t.Context(), []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

// await reads until text was printed, and returns the output before it.
func (s *screen) await(text string) []byte {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for {
		if before, after, ok := bytes.Cut(s.seen, []byte(text)); ok {
			s.seen = after
			return before
		}
		e, err := s.Next(ctx)
		if err != nil || e.Data == nil {
			s.t.Fatalf("%+v, %v instead of %q, behind %q", e, err, text, s.seen[max(0, len(s.seen)-1000):])
		}
		s.seen = append(s.seen, e.Data...)
	}
}

// skip reads n bytes and discards them.
func (s *screen) skip(n int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for n > 0 {
		e, err := s.Next(ctx)
		if err != nil || e.Data == nil {
			s.t.Fatalf("%+v, %v, %d bytes before the end", e, err, n)
		}
		n -= len(e.Data)
	}
}

// TestTerminal works in a terminal of a real sandbox, as a browser and as the command line do.
func TestTerminal(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data)
	c := s.client()
	x := s.session(c, func(spec *belljar.SessionSpec) { spec.WorkspaceExec = true })
	script, err := filepath.Abs("wsclient/terminal.py")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/usr/bin/python3", script, "ws"+strings.TrimPrefix(s.URL, "http"), s.Key, x.ID).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made, err := c.Terminals().Open(t.Context(), x.ID, belljar.TerminalSpec{})
	if err != nil {
		t.Fatal(err)
	}
	a := s.watch(c, made.ID)
	a.await("$ ")
	a.typed("echo $0 $(id -u) $TERM $HOME; kill -l %1; tty\n")
	a.await("bash 1000 xterm-256color /workspace")
	a.await("/dev/pts/")
	a.typed("sleep 1000 & jobs\n")
	a.await("Running")
	if err := c.Terminals().Close(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	_ = a.Close()
	if code := s.stop(); code != 0 {
		t.Errorf("the server ended with %d\n%s", code, s.output)
	}
}

// TestTerminalFlood makes many terminals print as fast as they can. The server does not grow, and a key typed into another terminal
// is answered.
func TestTerminalFlood(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serve(t, data, "--set", "terminals_per_session=101", "--set", "terminals_per_user=0", "--set", "pids_limit=400",
		"--set", "terminal_output_bps=8388608")
	c := s.client()
	var sandboxes []belljar.Session
	for range 4 { // a sandbox has 64 terminals, including those of its programs
		sandboxes = append(sandboxes, s.session(c, nil))
	}
	before := s.memory()
	floods := tier.Pick(16, 100)
	var wg sync.WaitGroup
	watching := make([]*screen, 10)
	for i := range floods {
		wg.Go(func() {
			made, err := c.Terminals().Open(t.Context(), sandboxes[i%4].ID, belljar.TerminalSpec{Command: []string{"yes", fmt.Sprint("flood ", i)}})
			if err != nil {
				t.Error(err)
			} else if i < len(watching) { // reads nothing
				if a, err := c.Terminals().Attach(t.Context(), made.ID); err == nil {
					watching[i] = &screen{Attachment: a, t: t}
				}
			}
		})
	}
	wg.Wait()
	made, err := c.Terminals().Open(t.Context(), sandboxes[0].ID, belljar.TerminalSpec{Command: []string{"cat"}})
	if err != nil {
		t.Fatalf("%v\n%s", err, s.output)
	}
	a := s.watch(c, made.ID)
	flood, err := c.Terminals().Open(t.Context(), sandboxes[0].ID, belljar.TerminalSpec{Command: []string{"yes"}})
	if err != nil {
		t.Fatal(err)
	}
	s.watch(c, flood.ID).skip(3 << 20) // the others have printed about as much
	var slowest time.Duration
	for i := range 10 {
		begun := time.Now()
		a.typed(fmt.Sprintf("%d\n", i))
		a.await(fmt.Sprintf("%d\r\n%d\r\n", i, i))
		slowest = max(slowest, time.Since(begun))
	}
	grown := s.memory() - before
	t.Logf("%d MiB more for %d terminals that flood; the slowest of 10 echoes took %v", grown>>20, floods, slowest)
	if grown > floods*2<<20+16<<20 {
		t.Errorf("the server grew by %d MiB", grown>>20)
	}
	for _, w := range watching {
		if w != nil {
			_ = w.Close()
		}
	}
	_ = a.Close()
	for _, x := range sandboxes {
		if err := c.Sessions().Delete(t.Context(), x.ID); err != nil {
			t.Error(err)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("the server ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}

// memory returns the server's own memory, in bytes. It excludes the pages of its program: the server's share of them grows whenever
// another server ends.
func (s *server) memory() int {
	s.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "Anonymous: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	s.t.Fatal("no memory")
	return 0
}
