package snapshot

import (
	"sync/atomic"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/box"
)

// endless is a session whose agent was taken over: commands print endlessly. sent is the most output that was accepted.
type endless struct {
	living
	sent *atomic.Int64
}

func (e endless) Box() *box.Box { return takenOver(e.serve) }

func (e endless) serve(req wire.Request, r *wire.Reader, w *wire.Writer) {
	if req.Op != wire.OpExec {
		_ = w.JSON(wire.KindReply, wire.Reply{Error: &wire.Error{Code: wire.CodeNotFound}})
		return
	}
	go func() { // acknowledgements
		for _, err := r.Read(); err == nil; {
			_, err = r.Read()
		}
	}()
	err := w.JSON(wire.KindReply, wire.Reply{Started: &wire.Started{}})
	for block := make([]byte, 32<<10); err == nil && e.sent.Load() < 16*maxShellState; {
		if err = w.Output(e.sent.Load(), wire.Stdout, block); err == nil {
			e.sent.Add(int64(len(block)))
		}
	}
}

func TestOwn(t *testing.T) {
	for name, want := range map[string]bool{
		"BASHPID": true, "BASH_VERSION": true, "COMP_WORDS": true, "EPOCHSECONDS": true, "HISTCMD": true, "BELLJAR_PROXY": true, "_belljar_n": true, "_": true, "PWD": true,
		"BASHFUL": false, "BASH_ENV": false, "COMP_ID": false, "EPOCHS": false, "HISTORY_DAYS": false, "SHELL": false, "TERM": false, "BELLJARS": false, "BELLJAR_TEAM": false, "x": false,
	} {
		if own(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}

func TestUndo(t *testing.T) {
	flags := map[string]string{"A": "-x", "B": "--", "C": "-rx", "PWD": "--"}
	got := string(undo([]string{"A=1", "B=2", "C=3", "D=4", "E=5", "a.b=6", "7=7", "_f8=8", "PWD=/", "BELLJAR_PROXY=x"}, flags, map[string]bool{"E": true}))
	if want := "\\builtin declare +x B\n\\builtin unset -v D\n\\builtin unset -v _f8\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A shell's output is held in memory, so an agent that does not bound it is stopped.
func TestShellWithoutEnd(t *testing.T) {
	var sent atomic.Int64
	out, _, ok := inShell(t.Context(), endless{sent: &sent}, wire.Exec{Shell: &wire.ShellRun{Separate: true}, OutputLimit: maxShellState + 1})
	if ok || len(out) > 0 || sent.Load() > 2*maxShellState {
		t.Errorf("%d bytes were taken: %t", sent.Load(), ok)
	}
}
