//go:build linux

package service_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// overdue is a context whose deadline passes when begun is closed.
type overdue struct {
	context.Context
	begun chan struct{}
}

func (c overdue) Done() <-chan struct{} { return c.begun }

func (c overdue) Err() error {
	select {
	case <-c.begun:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// An interpreter that cannot start is reported as an error, and leaves no context.
func TestContextDoesNotStart(t *testing.T) {
	b := newBench(t)
	all := b.service.As(service.Local()).Contexts()
	for script, want := range map[string]struct {
		waits bool
		code  belljar.Code
		text  string
	}{
		"exit": {false, belljar.CodeConflict, "ended while it started"},
		"echo >${0%/*}/begun; exec /bin/sleep 10000": {true, belljar.CodeTimeout, "did not start in time"},
	} {
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, "node"), []byte("#!/bin/bash\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		x := b.open(func(s *belljar.SessionRequest) { s.Env = map[string]string{"PATH": bin} })
		ctx := b.context()
		if want.waits {
			fifo := filepath.Join(bin, "begun")
			if err := unix.Mkfifo(fifo, 0o666); err != nil {
				t.Fatal(err)
			}
			begun := make(chan struct{})
			go func() {
				defer close(begun)
				if f, err := os.Open(fifo); err == nil { // the interpreter opens it, too
					f.Close()
				}
			}()
			ctx = overdue{ctx, begun}
		}
		_, err := all.Create(ctx, x.ID, belljar.ContextSpec{Language: "javascript"})
		if belljar.CodeOf(err) != want.code || !strings.Contains(err.Error(), want.text) || !strings.Contains(belljar.HintOf(err), "--pids") {
			t.Errorf("%s: %v", script, err)
		}
		if list, err := all.List(t.Context(), x.ID); err != nil || len(list) != 0 {
			t.Errorf("%s: %+v, %v", script, list, err)
		}
	}
}

// A run that is refused leaves no context, and no use of one that exists.
func TestContextOfARefusedRun(t *testing.T) {
	var fail bool
	kept := &records{insert: func() error {
		if fail {
			return syscall.EIO
		}
		return nil
	}}
	b := newBench(t, recorded(kept), func(o *service.Options) { o.QueueLength = 1 })
	all := b.service.As(service.Local()).Contexts()
	x := b.open()
	code := func(script string) belljar.RunRequest {
		return belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.1", SessionID: x.ID, Context: "c", Language: "bash", Code: script}}
	}
	names := func(want int) {
		t.Helper()
		if list, err := all.List(b.context(), x.ID); err != nil || len(list) != want {
			t.Errorf("%+v, %v, want %d", list, err, want)
		}
	}
	fail = true
	_, err := b.Start(b.context(), code("true"))
	refusedAs(t, "a run that cannot be recorded", err, belljar.CodeInternal)
	names(0)
	fail = false
	if r := b.run(code("echo in")); r.stdout != "in\n" {
		t.Errorf("%+v", r.Run)
	}
	fail = true
	_, err = b.Start(b.context(), code("true"))
	refusedAs(t, "a run that cannot be recorded", err, belljar.CodeInternal)
	names(1)
}

// If a limit of a session is above what this process may have, commands, contexts and terminals are refused with a hint.
func TestHardLimit(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Limits.NoFile = 1<<31 - 1 }) // no process may have so many open files
	x := b.open()
	_, made := b.service.As(service.Local()).Contexts().Create(t.Context(), x.ID, belljar.ContextSpec{Name: "c", Language: "bash"})
	_, opened := b.terminals("").Open(t.Context(), x.ID, belljar.TerminalSpec{})
	for what, err := range map[string]error{"a context": made, "a terminal": opened} {
		wantCode(t, what, err, belljar.CodePolicyDenied, "a hard limit of belljar itself", "ulimit -Hn")
	}
	if r := b.run(in(x, "true")); r.ReasonCode != belljar.ReasonExecFailed || !strings.Contains(r.Hint, "ulimit -Hn") {
		t.Errorf("a command: %s, hint %q", r.ReasonCode, r.Hint)
	}
}
