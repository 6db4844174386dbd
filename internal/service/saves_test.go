//go:build linux

package service_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	agentwire "github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/shelf"
)

// savingRuntime saves the state of sandboxes, for tests of higher layers. A restored sandbox has the files, and of the processes only a
// shell with the variables variable=kept and alive=yes.
type savingRuntime struct {
	runtime.Runtime
	memory   *int // bytes of a state besides its files
	restored *runtime.Sandbox
}

// saves configures a service with a runtime that saves the state of sandboxes in dir.
func saves(dir string) func(*service.Options) {
	return func(o *service.Options) {
		o.Runtimes = []runtime.Runtime{savingRuntime{o.Runtimes[0], new(int), new(runtime.Sandbox)}}
		o.Snapshots.Shelf = &shelf.Shelf{Dir: dir, Keep: 1 << 30, Max: 1 << 30}
	}
}

func (r savingRuntime) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	box, err := r.Runtime.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return savingBox{box, r.memory}, nil
}

func (r savingRuntime) Attach(ctx context.Context, id string) (runtime.Sandbox, error) {
	box, err := r.Runtime.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	return savingBox{box, r.memory}, nil
}

// Restore implements [runtime.Restorer].
func (r savingRuntime) Restore(ctx context.Context, spec runtime.Spec, dir string) (runtime.Sandbox, error) {
	f, err := os.Open(filepath.Join(dir, "files"))
	if err != nil {
		return nil, &runtime.StepError{Step: runtime.StepSnapshot, Err: errors.New("its files are gone")}
	}
	defer f.Close()
	spec.Lease = time.Minute // as the saved agent had
	box, err := r.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	*r.restored = box
	c := agent.New(box.Dial)
	if err = agent.Load(ctx, c, inWorkspace, f); err == nil {
		err = inShellOf(ctx, c, "variable=kept; alive=yes")
	}
	if err != nil {
		return nil, errors.Join(err, box.Destroy(ctx))
	}
	return box, nil
}

var inWorkspace = agentwire.FileRequest{Path: ".", UID: os.Getuid(), GID: os.Getgid()}

// inShellOf runs a command in the shell of a sandbox.
func inShellOf(ctx context.Context, c *agent.Client, cmd string) error {
	id := belljar.NewID()
	p, err := c.Exec(ctx, agentwire.Exec{
		ID: id, UID: os.Getuid(), GID: os.Getgid(), Env: []string{"PATH=/usr/bin:/bin"}, Shell: &agentwire.ShellRun{Cmd: []byte(cmd), Separate: true},
	})
	if err != nil {
		return err
	}
	defer p.Close()
	if _, err = p.Output(ctx, func(int64, agentwire.Stream, []byte) error { return nil }); err == nil {
		err = c.Forget(ctx, id) // a later list of commands must not contain it
	}
	return err
}

type savingBox struct {
	runtime.Sandbox
	memory *int
}

// Snapshot implements [runtime.Snapshotter].
func (b savingBox) Snapshot(ctx context.Context, dir string) error {
	f, err := os.Create(filepath.Join(dir, "files"))
	if err != nil {
		return err
	}
	defer f.Close()
	memory := make([]byte, *b.memory)
	_, _ = rand.Read(memory)
	_, err = agent.Save(ctx, agent.New(b.Dial), inWorkspace, f)
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "memory"), memory, 0o600))
}

// A session whose processes can be saved hibernates with them, and also with its files and shell, from which it resumes if the processes can never continue.
func TestHibernateLive(t *testing.T) {
	t.Parallel()
	rt, held, shelves := &slowRuntime{}, newBlobs(), t.TempDir()
	var saving savingRuntime
	b := newBench(t, func(o *service.Options) {
		rt.Runtime = o.Runtimes[0]
		o.Runtimes, o.Blobs, o.Quota.ArtifactMB, o.Snapshots.MB = []runtime.Runtime{rt}, held, 1, 3
		saves(shelves)(o)
		saving = o.Runtimes[0].(savingRuntime)
	})
	ctx := b.context()
	x := b.open()
	code := func(s string) result {
		return b.run(belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.0", SessionID: x.ID, Context: "c", Language: "bash", Code: s}})
	}
	how := func(want belljar.SessionState, live bool, reason string) {
		t.Helper()
		if got := b.state(x.ID, want).Hibernated; got == nil || got.Live != live || !strings.Contains(got.Reason, reason) || (got.Reason == "") != live {
			t.Errorf("%+v, want live %v, %q", got, live, reason)
		}
	}
	b.in(x.ID, "echo text >file")
	b.run(shellIn(x.ID, "variable=kept"))
	code("true")
	const ask = "cat file; echo $variable $alive"

	b.sleeping(x.ID) // an idle context does not prevent hibernation
	how(belljar.SessionHibernated, true, "")
	saved, err := b.snapshots().Get(ctx, x.ID+"-live")
	if err != nil || saved.Kind != "hibernated_live" || saved.SessionID != x.ID || !saved.Consistent || saved.ExpiresAt == nil || held.count() != 2 {
		t.Errorf("%+v, %v; %d blobs", saved, err, held.count())
	}
	for _, id := range []string{x.ID, saved.ID} {
		refusedAs(t, "removal", b.snapshots().Remove(ctx, id), belljar.CodeConflict)
	}
	refusedAs(t, "export", b.snapshots().Export(ctx, saved.ID, &strings.Builder{}), belljar.CodeConflict)
	wantText(t, b.run(shellIn(x.ID, ask)).stdout, "text\nkept yes\n")
	how(belljar.SessionActive, true, "")
	if info, err := agent.New((*saving.restored).Dial).Ping(ctx); err != nil || info.LeaseMS != 0 { // the sandbox ends with its service
		t.Errorf("%+v, %v", info, err)
	}
	if r := code("true"); r.Context.State == belljar.ContextNew { // the fake's interpreter is gone, and its agent reports that
		t.Errorf("%+v", r.Context)
	}
	b.until(func() bool { return held.count() == 0 && b.kept() == 0 })

	// A running program prevents it.
	b.run(shellIn(x.ID, "sleep 1000 & true"))
	_, err = b.hibernate(x.ID, false)
	refusedAs(t, "a job of the shell", err, belljar.CodeConflict)
	if _, err := b.hibernate(x.ID, true); err != nil {
		t.Fatal(err)
	}
	how(belljar.SessionHibernated, true, "")

	// If making a sandbox fails now, a later attempt may succeed, with the processes.
	rt.set(func() { rt.fail = &runtime.StepError{Step: "mount", Err: errors.New("no room"), Hint: "make room"} })
	_, err = b.service.As(service.Local()).Files().Stat(ctx, x.ID, "file")
	refusedAs(t, "no room", err, belljar.CodeRuntimeUnavailable)
	how(belljar.SessionHibernated, true, "")
	rt.set(func() { rt.fail = nil })
	wantText(t, b.run(shellIn(x.ID, ask)).stdout, "text\nkept yes\n")

	// Without the processes, it resumes with the rest.
	code("true")
	b.run(shellIn(x.ID, "unset alive"))
	b.sleeping(x.ID)
	states, err := filepath.Glob(filepath.Join(shelves, "layer-*", "files"))
	if err != nil || len(states) != 1 || os.Remove(states[0]) != nil {
		t.Fatalf("%v, %v", states, err)
	}
	wantText(t, b.run(shellIn(x.ID, ask)).stdout, "text\nkept\n")
	how(belljar.SessionActive, false, "its files are gone")
	if r := code("true"); r.Context.State != belljar.ContextNew {
		t.Errorf("%+v", r.Context)
	}

	// The quota has room for files but not for memory: contexts then prevent an unforced hibernation.
	*saving.memory = 2 << 20
	_, err = b.hibernate(x.ID, false)
	refusedAs(t, "memory above the quota", err, belljar.CodeQuotaExceeded)
	if hint := belljar.HintOf(err); !strings.Contains(hint, "make it smaller") {
		t.Errorf("hint: %q", hint)
	}
	b.state(x.ID, belljar.SessionActive)
	b.until(func() bool { return held.count() == 0 && b.kept() == 0 })
	if _, err := b.hibernate(x.ID, true); err != nil {
		t.Fatal(err)
	}
	how(belljar.SessionHibernated, false, "takes up 2 MiB, and your snapshots, artifacts and volumes 0 of 1 MiB already")
	wantText(t, b.run(shellIn(x.ID, ask)).stdout, "text\nkept\n")
	*saving.memory = 4 << 20
	_, err = b.snapshots().Make(ctx, x.ID, belljar.SnapshotSpec{Live: true})
	if refusedAs(t, "memory above the limit", err, belljar.CodeTooLarge); err != nil && !strings.Contains(err.Error(), "larger than the 3 MiB of a snapshot") {
		t.Error(err)
	}

	if err := b.mine().Delete(ctx, x.ID); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(shelves, "layer-*")); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// gatedSaves blocks the saving of a sandbox's state.
type gatedSaves struct {
	runtime.Runtime
	asked, proceed chan struct{}
}

func (r gatedSaves) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	box, err := r.Runtime.Create(ctx, spec)
	return gatedSave{box, r}, err
}

type gatedSave struct {
	runtime.Sandbox
	of gatedSaves
}

// Snapshot implements [runtime.Snapshotter].
func (b gatedSave) Snapshot(_ context.Context, dir string) error {
	b.of.asked <- struct{}{}
	<-b.of.proceed
	return os.WriteFile(filepath.Join(dir, "memory"), []byte("state"), 0o600)
}

// The number of a user's states being written to the disk is bounded like that of archives, for any number of requests.
func TestLiveSnapshotsAtOnce(t *testing.T) {
	t.Parallel()
	gate, shelves := gatedSaves{asked: make(chan struct{}), proceed: make(chan struct{})}, t.TempDir()
	b := newBench(t, func(o *service.Options) {
		gate.Runtime = o.Runtimes[0]
		o.Runtimes, o.Snapshots.Shelf = []runtime.Runtime{gate}, &shelf.Shelf{Dir: shelves, Keep: 1 << 30, Max: 1 << 30}
	})
	const most = 4
	made := make(chan error, most+1)
	live := func() {
		x := b.open()
		go func() {
			_, err := b.snapshots().Make(b.context(), x.ID, belljar.SnapshotSpec{Live: true})
			made <- err
		}()
	}
	for range most {
		live()
		<-gate.asked
	}
	left := most
	live()
	select {
	case err := <-made:
		refusedAs(t, "one too many", err, belljar.CodeRateLimited)
	case <-gate.asked:
		t.Error("one too many is saved")
		left++
	}
	close(gate.proceed)
	for range left {
		if err := <-made; err != nil {
			t.Error(err)
		}
	}
}
