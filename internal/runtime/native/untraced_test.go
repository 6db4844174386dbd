//go:build linux

package native_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/internal/runtime/runtimetest"
	"github.com/belljar/belljar/test/need"
)

// If the run folder of living sandboxes is removed, they can still be destroyed and new ones made.
func TestRunFolderIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	first, err := r.Create(t.Context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, native.Name)); err != nil {
		t.Fatal(err)
	}
	second, err := r.Create(t.Context(), spec())
	if err != nil {
		t.Fatalf("a new one: %v", err)
	}
	if _, err := agent.New(second.Dial).Ping(t.Context()); err != nil {
		t.Errorf("the new one: %v", err)
	}
	for _, box := range []runtime.Sandbox{first, second} {
		if err := box.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	}
	nothingLeft(t, dir)
}

// Sandboxes whose files are gone are found by their cgroups, and ended. Other sandboxes are not touched.
func TestSweepUntraced(t *testing.T) {
	dir := t.TempDir()
	installation := belljar.NewID()
	r, err := native.New(native.Options{Agent: bytes.NewReader(agentProgram), RunDir: dir, Installation: installation})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var boxes []runtime.Sandbox
	for range 4 {
		of := spec()
		of.Lifetime = runtime.LifetimeDetached
		box, err := r.Create(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		defer box.Destroy(context.Background())
		boxes = append(boxes, box)
	}
	caps, err := r.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !caps.Protection(runtime.ProtectMemory).Enforced {
		need.Missing(t, "cgroups, to find them by")
	}
	for i, left := range []string{"", ".lock", "/"} { // nothing, the lock, the folder
		path := filepath.Join(dir, native.Name, installation, boxes[i].ID())
		if left != "/" {
			err = os.RemoveAll(path)
		}
		if err == nil && left != ".lock" {
			err = os.Remove(path + ".lock")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n, err := r.SweepUntraced(t.Context()); n != 1 || err != nil {
		t.Errorf("swept %d, %v; want the one that has left nothing", n, err)
	}
	if exit, err := boxes[0].Wait(t.Context()); err != nil || exit.Reason == "" {
		t.Errorf("it ended: %+v, %v", exit, err)
	}
	for _, box := range boxes[2:] {
		if _, err := agent.New(box.Dial).Ping(t.Context()); err != nil {
			t.Errorf("a living one: %v", err)
		}
	}
}

// If a cgroup cannot be removed, the sandbox's files stay, so that the next process finds it.
func TestRemoveAgain(t *testing.T) {
	dir := t.TempDir()
	id := runtimetest.Killed(t, dir, runtime.LifetimeCreator)
	host, err := cgroup.Discover(cgroup.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	if box, err := r.Attach(t.Context(), id); err == nil { // it may still be ending
		if _, err := box.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	group, err := host.Open("test/"+native.Name, id)
	if errors.Is(err, fs.ErrNotExist) {
		need.Missing(t, "a cgroup of the sandbox")
	}
	if err == nil {
		err = os.Remove(filepath.Join(dir, native.Name, "test", id, "record.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	holder := exec.Command("cat")
	input, err := holder.StdinPipe()
	if err == nil {
		err = holder.Start()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(group.Folders()[0].Path, "cgroup.procs"), []byte(strconv.Itoa(holder.Process.Pid)), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	hasty, cancel := context.WithCancel(t.Context())
	cancel()
	r = open(t, dir) // this runtime does not know the sandbox
	if err := r.Remove(hasty, id); err == nil {
		t.Error("it is reported as removed, with a process in it")
	}
	if ids, err := r.List(t.Context()); len(ids) != 1 || err != nil {
		t.Errorf("left are %v, %v; want %s", ids, err, id)
	}
	_ = input.Close()
	if err := holder.Wait(); err != nil {
		t.Error(err)
	}
	if err := r.Remove(t.Context(), id); err != nil {
		t.Error(err)
	}
	if _, err := host.Open("test/"+native.Name, id); err == nil {
		t.Error("its cgroup is left")
	}
	nothingLeft(t, dir)
}
