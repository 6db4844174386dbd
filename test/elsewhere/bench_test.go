//go:build linux

package elsewhere

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// everywhere starts a server with each source of workspaces, the local one first. Each has a folder many with 1,000 files, and a terminal; its
// session is returned, too.
func everywhere(b *testing.B) (names []string, servers map[string]*belljar, terminals map[string]front, sessions map[string]string) {
	far := start(b)
	_, sprite := newSprite(b)
	names, servers, terminals = []string{"local", "sandbox", "remote", "sprite"}, map[string]*belljar{
		"local":   start(b, "SANDBOX_WORKSPACE_MODE=local", "SANDBOX_WORKSPACE_DIR="+b.TempDir(), "SANDBOX_ALLOW_WEAK=workspace_local"),
		"sandbox": start(b),
		"remote":  start(b, "SANDBOX_WORKSPACE_MODE=remote", "SANDBOX_WORKSPACE_URL="+far.URL, "SANDBOX_WORKSPACE_KEY="+far.Key),
		"sprite":  start(b, sprite...),
	}, map[string]front{}
	sessions = map[string]string{}
	for name, s := range servers {
		shell, m := s.front("pty")
		shell.say("mkdir many; cd many; i=0; while [ $i -lt 1000 ]; do : > f$i; i=$((i+1)); done; stty -echo; echo al''l\n")
		shell.shows("all")
		terminals[name], sessions[name] = shell, m["session_id"].(string)
	}
	return names, servers, terminals, sessions
}

// inTurns measures do with each server in turns, so that all have the same machine. It reports milliseconds and the ratio to mode local.
func inTurns(b *testing.B, names []string, do func(name string)) {
	took := map[string][]time.Duration{}
	for b.Loop() {
		for _, name := range names {
			begun := time.Now()
			do(name)
			took[name] = append(took[name], time.Since(begun))
		}
	}
	at := func(name string, percent int) float64 {
		slices.Sort(took[name])
		return took[name][(len(took[name])-1)*percent/100].Seconds() * 1e3
	}
	for _, name := range names {
		line := name
		for _, percent := range []int{0, 50, 95, 100} {
			line += fmt.Sprintf("  p%d %.1f ms, %.2f", percent, at(name, percent), at(name, percent)/at("local", percent))
		}
		b.Log(line)
		b.ReportMetric(at(name, 95)/at("local", 95), name+"-p95/local")
	}
}

// BenchmarkWorkspaces measures the operations that front ends wait for, with each source of workspaces. docs/specification.md has its figures.
func BenchmarkWorkspaces(b *testing.B) {
	names, servers, terminals, sessions := everywhere(b)
	b.Run("tree", func(b *testing.B) {
		inTurns(b, names, func(name string) { servers[name].want(200, "f999", "GET", "/workspace/api/tree?path=many", "") })
	})
	b.Run("ready", func(b *testing.B) {
		inTurns(b, names, func(name string) { servers[name].want(200, "root", "GET", "/workspace/api/project", "") })
	})
	b.Run("echo", func(b *testing.B) { // a terminal's input to its output
		inTurns(b, names, func(name string) {
			terminals[name].say("echo x''.\n")
			terminals[name].shows("x.")
		})
	})
	b.Run("reattach", func(b *testing.B) {
		inTurns(b, names, func(name string) {
			f, m := servers[name].front(fmt.Sprintf("pty?resume=false&session_id=%s", sessions[name]))
			if m["resumed"] != true {
				b.Fatal(m)
			}
			_ = f.conn.CloseNow()
		})
	})
}
