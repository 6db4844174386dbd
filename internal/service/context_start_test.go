//go:build linux

package service_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
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
