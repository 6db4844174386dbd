//go:build linux

package service_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// An interpreter that cannot start is reported as an error, and leaves no context.
func TestContextDoesNotStart(t *testing.T) {
	b := newBench(t)
	all := b.service.As(service.Local()).Contexts()
	for script, want := range map[string]struct {
		wait time.Duration
		code belljar.Code
		says string
	}{
		"exit":                  {patience, belljar.CodeConflict, "ended while it started"},
		"exec /bin/sleep 10000": {time.Second / 4, belljar.CodeTimeout, "did not start in time"},
	} {
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, "node"), []byte("#!/bin/bash\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		x := b.open(func(s *belljar.SessionRequest) { s.Env = map[string]string{"PATH": bin} })
		ctx, cancel := context.WithTimeout(t.Context(), want.wait)
		_, err := all.Create(ctx, x.ID, belljar.ContextSpec{Language: "javascript"})
		cancel()
		if belljar.CodeOf(err) != want.code || !strings.Contains(err.Error(), want.says) || !strings.Contains(belljar.HintOf(err), "--pids") {
			t.Errorf("%s: %v", script, err)
		}
		if list, err := all.List(t.Context(), x.ID); err != nil || len(list) != 0 {
			t.Errorf("%s: %+v, %v", script, list, err)
		}
	}
}
