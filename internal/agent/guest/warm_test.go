//go:build linux

package guest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// parkPython starts an interpreter that waits for a program, and returns the program's exec.
func parkPython(t *testing.T, text string) (*host, wire.Exec) {
	h := begin(t, guest.Config{Secrets: filepath.Join(t.TempDir(), "secrets")})
	if err := os.WriteFile(filepath.Join(h.dir, "main.py"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	e := h.sh("warm", "")
	e.Argv, e.Env = []string{"python3", "main.py"}, []string{"PATH=" + h.dir + ":/usr/bin:/bin"}
	e.Rlimits, e.Warm = map[string]uint64{"nproc": 4000}, &wire.Warm{}
	if r := h.ask(wire.Request{Op: wire.OpPark, Exec: &e}).reply(); !r.Done {
		t.Fatalf("%+v", r.Error)
	}
	return h, e
}

// A program has the interpreter that its PATH finds now, not one that was found when it was parked.
func TestWarmFindsItsInterpreterAgain(t *testing.T) {
	h, e := parkPython(t, "print('parked')")
	if err := os.WriteFile(filepath.Join(h.dir, "python3"), []byte("#!/bin/sh\necho other\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	l := h.exec(e)
	if out, errs, _ := l.follow(nil); out != "other\n" || errs != "" {
		t.Errorf("%q, %q", out, errs)
	}
}

// A warm program may have as many processes as a cold one, where the agent's count, too.
func TestWarmProcessLimit(t *testing.T) {
	h, e := parkPython(t, "import resource\nprint(resource.getrlimit(resource.RLIMIT_NPROC)[0])")
	l := h.exec(e)
	if !l.started().Warm {
		t.Error("it starts cold")
	}
	if out, _, _ := l.follow(nil); number(t, strings.TrimSpace(out)) <= 4000 {
		t.Errorf("%s processes", out)
	}
}
