//go:build linux

package native_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/internal/runtime/runtimetest"
)

// A runtime sweeps the remains of dead sandboxes of an installation that is never used again. Living ones stay.
func TestSweepOthers(t *testing.T) {
	dir := t.TempDir()
	dead, alive := runtimetest.Killed(t, dir, runtime.LifetimeCreator), runtimetest.Killed(t, dir, runtime.LifetimeDetached)
	theirs := open(t, dir)
	if box, err := theirs.Attach(context.Background(), dead); err == nil { // it may still be ending
		if _, err := box.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	ours, err := native.New(native.Options{Agent: bytes.NewReader(agentProgram), RunDir: dir, Installation: "ours"})
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if err := os.Mkdir(filepath.Join(dir, native.Name, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if n, err := ours.SweepOthers(context.Background()); n != 1 || err != nil {
		t.Errorf("swept %d, %v; want the dead one", n, err)
	}
	if _, err := os.Stat(filepath.Join(dir, native.Name, "empty")); !os.IsNotExist(err) {
		t.Errorf("the folder of an installation without sandboxes: %v", err)
	}
	if ids, err := theirs.List(context.Background()); len(ids) != 1 || ids[0] != alive || err != nil {
		t.Errorf("left are %v, %v; want %s", ids, err, alive)
	}
	box, err := theirs.Attach(context.Background(), alive)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.New(box.Dial).Ping(context.Background()); err != nil {
		t.Errorf("the living one: %v", err)
	}
}
