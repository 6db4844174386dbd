//go:build linux

package service_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/shelf"
	"github.com/belljar/belljar/test/need"
)

// overlays makes a runtime claim support for overlays, which fails later.
func overlays(caps *runtime.Capabilities) { caps.Overlay = true }

// TestOverlayFallsBack checks that files are copied if an overlay turns out to be impossible, and that the unpacked ones are
// removed.
func TestOverlayFallsBack(t *testing.T) {
	t.Parallel()
	kept := &shelf.Shelf{Dir: t.TempDir(), Keep: 1 << 20, Max: 1 << 20}
	b := newBench(t, func(o *service.Options) {
		o.Runtimes = []runtime.Runtime{claiming{o.Runtimes[0], overlays}}
		o.Snapshots.Shelf = kept
	})
	ctx, sessions := b.context(), b.service.As(service.Local()).Sessions()
	x := b.open()
	b.in(x.ID, "for i in $(seq 60); do echo $i >f$i; done")
	made, err := b.snapshots().Make(ctx, x.ID, belljar.SnapshotSpec{})
	if err != nil {
		t.Fatal(err)
	}
	fork, err := b.snapshots().Fork(ctx, x.ID, belljar.ForkSpec{Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(fork.Sessions, b.from(made.ID)) {
		if r := b.in(s.ID, "cat f60; ls | wc -l"); r.stdout != "60\n60\n" || r.SnapshotDigest != made.Digest {
			t.Errorf("%q, %s", r.stdout, r.SnapshotDigest)
		}
		if err := sessions.Delete(ctx, s.ID); err != nil {
			t.Error(err)
		}
	}
	l, err := kept.Get(strings.TrimPrefix(made.Digest, "sha256:") + "-1000-1000")
	if os.Geteuid() != 0 {
		l.Release() // files of another user cannot be created
	} else if err != nil || l == nil || l.Files != 60 || l.Bytes != 60*4096 {
		t.Errorf("%+v, %v", l, err)
	}
	l.Release()
	if err := b.snapshots().Remove(ctx, made.ID); err != nil {
		t.Error(err)
	}
}

// unpacking configures a service that unpacks snapshots into a folder.
func unpacking(dir string) func(*service.Options) {
	return func(o *service.Options) {
		o.Runtimes = []runtime.Runtime{claiming{o.Runtimes[0], overlays}}
		o.Snapshots.Shelf = &shelf.Shelf{Dir: dir, Keep: 1 << 30, Max: 1 << 30}
	}
}

// TestUnpackedGo checks that unpacked files are removed with their snapshot, or with the last sandbox that uses them.
func TestUnpackedGo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "shelf")
	b := newBench(t, unpacking(dir))
	ctx, all := b.context(), b.snapshots()
	have := func(pattern string) int {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	want := func(what string, folders int) {
		t.Helper()
		if got := have("layer-*[0-9]"); got != folders {
			t.Errorf("%s: %d folders", what, got)
		}
	}
	end := func(what string, ids ...string) {
		t.Helper()
		for _, id := range ids {
			if err := b.mine().Delete(ctx, id); err != nil {
				t.Error(err)
			}
		}
		b.until(func() bool { return have("*") == 0 })
	}
	x := b.open()
	b.in(x.ID, "for i in $(seq 60); do echo $i >f$i; done")
	made, err := all.Make(ctx, x.ID, belljar.SnapshotSpec{})
	if err != nil {
		t.Fatal(err)
	}
	one, two := b.from(made.ID), b.from(made.ID)
	want("restored", 1)
	if err := all.Remove(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	want("removed while sessions have it", 1)
	if err := b.mine().Delete(ctx, one.ID); err != nil {
		t.Error(err)
	}
	want("one session less", 1)
	end("none is left", two.ID)

	if made, err = all.Make(ctx, x.ID, belljar.SnapshotSpec{}); err != nil {
		t.Fatal(err)
	}
	one = b.from(made.ID)
	if err := b.mine().Delete(ctx, one.ID); err != nil {
		t.Error(err)
	}
	want("no session has it", 1)
	if err := all.Remove(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	b.until(func() bool { return have("*") == 0 })

	fork, err := all.Fork(ctx, x.ID, belljar.ForkSpec{Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	want("copies", 1)
	end("copies", fork.Sessions[0].ID, fork.Sessions[1].ID)

	b.sleeping(x.ID)
	want("hibernated", 0)
	b.in(x.ID, "cat f60")
	woken := func() {
		t.Helper()
		b.until(func() bool {
			_, err := all.Get(ctx, x.ID)
			return belljar.CodeOf(err) == belljar.CodeNotFound
		})
		want("awake", 1)
	}
	woken()
	b.sleeping(x.ID) // with the same files, which stay unpacked
	want("hibernated again", 1)
	b.in(x.ID, "cat f60; echo >f61")
	woken()
	b.sleeping(x.ID)
	b.until(func() bool { return have("*") == 0 })
	b.in(x.ID, "cat f61")
	woken()
	end("awake", x.ID)
}

// TestUnpackedOnAFullDisk checks that unpacking stops in front of the watermark and leaves nothing. A session then gets a copy.
func TestUnpackedOnAFullDisk(t *testing.T) {
	t.Parallel()
	const most = 70 << 20
	dir := filepath.Join(t.TempDir(), "shelf")
	b := newBench(t, unpacking(dir), func(o *service.Options) {
		o.Runtimes[0] = claiming{o.Runtimes[0], func(caps *runtime.Capabilities) { caps.Layers = true }}
		o.MinFreeBytes = 64 << 20
		o.FreeBytes = func() (uint64, error) {
			var used uint64
			err := filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return nil // it is removed meanwhile
				}
				if info, err := e.Info(); err == nil {
					used += uint64(info.Size())
				}
				return nil
			})
			return most - min(used, most), err
		}
	})
	x := b.open()
	b.in(x.ID, "for i in 1 2 3 4 5; do yes $i | head -c 4M >f$i; done")
	made, err := b.snapshots().Make(b.context(), x.ID, belljar.SnapshotSpec{})
	if err != nil {
		t.Fatal(err)
	}
	clean := func(what string) {
		t.Helper()
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %v are left", what, left)
		}
	}
	r := b.run(belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.0", BaseImage: "host", Snapshot: made.ID, Command: []string{"true"}}})
	if !strings.Contains(r.Message, "nothing new begins") {
		t.Errorf("%+v", r.Run)
	}
	clean("a run")
	if r := b.in(b.from(made.ID).ID, "ls"); r.stdout != "f1\nf2\nf3\nf4\nf5\n" {
		t.Errorf("%q", r.stdout)
	}
	clean("a session")
}

// TestUnpackedInUse checks that sessions hold no more unpacked files than are kept: others get a copy, also if the snapshots were removed. Copies of a
// session share their files with those of an earlier call.
func TestUnpackedInUse(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "shelf")
	b := newBench(t, unpacking(dir), func(o *service.Options) { o.Snapshots.Shelf.Keep = 5 << 20 })
	want := func(what string, folders int) {
		t.Helper()
		if found, _ := filepath.Glob(filepath.Join(dir, "layer-*[0-9]")); len(found) != folders {
			t.Errorf("%s: %q", what, found)
		}
	}
	x := b.open()
	var have []string
	for i := range 3 {
		b.in(x.ID, "yes "+string(rune('a'+i))+" | head -c 2M >f")
		made, err := b.snapshots().Make(b.context(), x.ID, belljar.SnapshotSpec{})
		if err != nil {
			t.Fatal(err)
		}
		s := b.from(made.ID)
		if r := b.in(s.ID, "head -c 1 f"); r.stdout != string(rune('a'+i)) {
			t.Errorf("session %d has %q", i, r.stdout)
		}
		have = append(have, s.ID)
		want("in use", min(i+1, 2))
		if err := b.snapshots().Remove(b.context(), made.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range have {
		if err := b.mine().Delete(b.context(), id); err != nil {
			t.Fatal(err)
		}
	}
	b.until(func() bool { left, _ := os.ReadDir(dir); return len(left) == 0 })
	for range 2 {
		if _, err := b.snapshots().Fork(b.context(), x.ID, belljar.ForkSpec{}); err != nil {
			t.Fatal(err)
		}
		want("copies", 1)
	}
}

// bare is a runtime that makes a workspace without its initial files.
type bare struct{ runtime.Runtime }

func (r bare) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	spec.Workspace.Below = runtime.Below{}
	return r.Runtime.Create(ctx, spec)
}

// TestUnpackedOutliveTheirProcess checks that the initial files of a run's workspace stay while it runs, also in the next
// process.
func TestUnpackedOutliveTheirProcess(t *testing.T) {
	need.Root(t) // creates files of another user
	dir, gate := filepath.Join(t.TempDir(), "shelf"), filepath.Join(t.TempDir(), "gate")
	w := newWorld(t, func(o *service.Options) { o.Runtimes[0] = bare{o.Runtimes[0]} }, unpacking(dir))
	folders := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "layer-*[0-9]"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	p := w.boot()
	p.template(belljar.TemplateSpec{Name: "data", BaseImage: "host", Run: []string{"for i in $(seq 60); do echo $i >f$i; done"}})
	run := p.start(onTemplate("data", "echo up; while [ ! -e "+gate+" ]; do sleep 0.01; done"))
	p.waitFor(run.ID, "up\n")
	if _, err := p.List(p.context(), belljar.RunQuery{}); err != nil { // records the running ones
		t.Fatal(err)
	}
	p.kill()
	former := dir + "-former" // with the locks of the dead process
	if err := os.Rename(dir, former); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(former)); err != nil {
		t.Fatal(err)
	}
	p = w.boot()
	if err := p.templates().Remove(p.context(), "data", false); err != nil {
		t.Fatal(err)
	}
	if got := folders(); len(got) != 1 {
		t.Errorf("while the run has them: %q", got)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
	p.until(func() bool { return len(folders()) == 0 })
}

// TestKilledInstallation checks that the start removes the packages that a killed process had not finished.
func TestKilledInstallation(t *testing.T) {
	t.Parallel()
	kept := &shelf.Shelf{Dir: filepath.Join(t.TempDir(), "packages"), Keep: 1 << 20, Max: 1 << 20}
	l, err := kept.Make(func(dir string) error { return os.WriteFile(filepath.Join(dir, "half.py"), nil, 0o600) })
	if err != nil {
		t.Fatal(err)
	}
	l.Leave() // its process is gone
	newWorld(t, func(o *service.Options) { o.Packages.Shelf = kept }).boot()
	if left, err := os.ReadDir(kept.Dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left: %v", left, err)
	}
}
