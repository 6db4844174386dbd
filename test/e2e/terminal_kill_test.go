//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/tier"
)

// TestTerminalKill kills the server while terminals are in use, also while one prints endlessly and one ends. After the
// next start they are there again: the shell with its variables, its jobs and its history, the endless output without a
// gap in its remaining part, and the end of the one that ended in the meantime.
func TestTerminalKill(t *testing.T) {
	rounds := tier.Rounds(t, 1, 10)
	data := t.TempDir()
	s := serve(t, data)
	c := s.client()
	x := s.session(c, nil)
	open := func(command ...string) string {
		t.Helper()
		made, err := c.Terminals().Open(t.Context(), x.ID, belljar.TerminalSpec{Command: command, Name: "kept", Cols: 100, Rows: 30})
		if err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	shell := open()
	count := open("sh", "-c", "i=0; while :; do i=$((i+1)); echo line $i; done")
	a := s.watch(c, shell)
	a.typed("marker=ro''und; sleep 1000 & echo rea''dy\n")
	a.await("ready")
	_ = a.Close()
	for round := range rounds {
		short := open("sh", "-c", "echo soon; sleep 0.05; echo over; exit 6")
		s.watch(c, short).await("soon")
		a := s.watch(c, shell)
		a.typed(fmt.Sprintf("cd /tmp; echo $marker-%d\n", round))
		a.await(fmt.Sprintf("round-%d", round))
		if round%3 == 1 { // an orderly stop, as for a new version
			s.stop()
		} else {
			s.kill()
		}
		if _, err := a.Next(t.Context()); err != nil && belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
			t.Errorf("a connection that breaks: %v", err)
		}
		s = serve(t, data)
		c = s.client()

		list, err := c.Terminals().List(t.Context(), x.ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) < 3 || list[0].ID != shell || list[0].Name != "kept" || list[0].Cols != 100 || list[0].Attached != 0 {
			t.Fatalf("round %d: %+v\n%s", round, list, s.output)
		}
		a = s.watch(c, shell)
		a.await(fmt.Sprintf("round-%d", round)) // of the history
		a.typed("jobs; pwd; echo $marker-ag''ain\n")
		a.await("Running")
		a.await("/tmp")
		a.await("round-again")
		_ = a.Close()

		b := s.watch(c, short)
		b.await("over")
		for e := (belljar.TerminalEvent{}); e.Kind != belljar.TerminalExit || e.ExitCode != 6; {
			if e, err = b.Next(t.Context()); err != nil {
				t.Fatalf("round %d: %+v, %v", round, e, err)
			}
		}
		_ = b.Close()
		f := s.watch(c, count)
		f.await("\n")
		text := string(f.await("000\r\n")) + "000"
		lines := strings.Split(text, "\r\n")
		first := 0
		for i, line := range lines {
			var n int
			if _, err := fmt.Sscanf(line, "line %d", &n); err != nil || i > 0 && n != first+i {
				t.Fatalf("round %d: line %d behind %d is %q", round, i, first, line)
			}
			if i == 0 {
				first = n
			}
		}
		_ = f.Close()
	}
	var gone *belljar.Error
	if err := c.Sessions().Delete(t.Context(), x.ID); err != nil {
		t.Error(err)
	}
	if _, err := c.Terminals().Get(t.Context(), shell); !errors.As(err, &gone) || gone.Code != belljar.CodeNotFound {
		t.Error(err)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("the last server ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}
