//go:build linux

package gvisor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/gvisor"
	"github.com/belljar/belljar/test/need"
)

// runsc may be installed, removed and replaced while a daemon runs: a probe reports the current state.
func TestProgramComesAndGoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "belljar-runsc")
	o, err := options(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o.Path = path
	r, err := gvisor.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	put := func(target string) {
		t.Helper()
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if target == "" {
			return
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ target, why string }{
		{"", "no such file"},
		{os.Getenv(runscPath), ""},
		{"/bin/sh", "was not built with Go"},
		{os.Getenv(agentPath), "another program"},
		{os.Getenv(runscPath), ""},
		{"", "no such file"},
	} {
		put(step.target)
		caps, err := r.Probe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if step.why == "" {
			if !caps.Available || caps.Version == "" || caps.State != runtime.StateSupported {
				t.Errorf("with %q: %+v", step.target, caps)
			}
			continue
		}
		if caps.Available || len(caps.Reasons) == 0 || !strings.Contains(caps.Reasons[0].Detail, step.why) || caps.Version != "" || caps.State != runtime.StateHostGated {
			t.Errorf("with %q: %+v", step.target, caps)
		}
		sandbox, err := r.Create(t.Context(), runtime.Spec{
			ID: "none", Root: runtime.Root{Ref: runtime.HostRef}, Workspace: runtime.Workspace{Bytes: 1 << 20, Inodes: 100},
		})
		var failed *runtime.StepError
		if err == nil {
			sandbox.Destroy(context.Background())
		}
		if !errors.As(err, &failed) || failed.Step != "runsc" || failed.Hint == "" {
			t.Errorf("with %q a sandbox was made: %v", step.target, err)
		}
	}
}

// A build with a umask of 077 makes a program that no user of a sandbox can execute; the error says so, with a hint.
func TestProgramForItsOwnerOnly(t *testing.T) {
	need.Root(t)
	o, err := options(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	o.Path = filepath.Join(t.TempDir(), "belljar-runsc")
	if err := os.WriteFile(o.Path, program, 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := gvisor.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	caps, err := r.Probe(t.Context())
	if err != nil || caps.Available || len(caps.Reasons) != 1 || caps.Reasons[0].Step != "runsc" || caps.Reasons[0].Hint != "chmod a+rx "+o.Path {
		t.Errorf("%+v, %v", caps, err)
	}
	if err := os.Chmod(o.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	if caps, err := r.Probe(t.Context()); err != nil || !caps.Available {
		t.Errorf("%+v, %v", caps, err)
	}
}

// The platform kvm is unavailable if its device is missing or the sentry cannot open it; a caller that selects it gets an
// error before anything runs.
func TestPlatformKVM(t *testing.T) {
	o, err := options(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o.Platform = gvisor.PlatformKVM
	r, err := gvisor.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	info, err := os.Stat("/dev/kvm")
	open := err == nil && info.Mode().Perm()&0o006 == 0o006
	caps, err := r.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	denied := false
	for _, why := range caps.Reasons {
		denied = denied || strings.Contains(why.Detail, "/dev/kvm") && why.Hint != ""
	}
	if denied == open || denied && caps.Available {
		t.Errorf("/dev/kvm is open to everybody: %v; and the probe says %+v", open, caps)
	}
}
