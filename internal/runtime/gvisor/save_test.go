//go:build linux

package gvisor_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/gvisor"
)

// sh returns a shell command, to be run as the sandbox's user.
func sh(script string) wire.Exec {
	return wire.Exec{
		ID: belljar.NewID(), Argv: []string{"/bin/sh", "-c", script}, UID: 1000, GID: 1000, Env: []string{"PATH=/usr/bin:/bin"},
	}
}

// counter increments a number in a file for ever.
const counter = `i=0; while :; do i=$((i+1)); echo $i >n.new; mv n.new n; sleep 0.05; done`

// count returns the counter's number.
func count(t *testing.T, box runtime.Sandbox) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(run(t, box, "cat n")))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// counting starts the counter in a sandbox, detached from its starter.
func counting(t *testing.T, box runtime.Sandbox) {
	t.Helper()
	p, err := agent.New(box.Dial).Exec(context.Background(), sh(counter))
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	run(t, box, "while ! test -e n; do sleep 0.01; done")
}

// beyond waits until the counter is above n.
func beyond(t *testing.T, box runtime.Sandbox, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	wait := sh(fmt.Sprintf("until read i <n && [ $i -gt %d ]; do sleep 0.02; done", n))
	wait.KillAll = true
	p, err := agent.New(box.Dial).Exec(ctx, wait)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	exit, err := p.Output(ctx, func(int64, wire.Stream, []byte) error { return nil })
	if err != nil || exit.Code != 0 {
		t.Fatalf("the counter stays at %d: %+v, %v", n, exit, err)
	}
}

func TestPause(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s := spec()
	s.Lifetime = runtime.LifetimeDetached
	box, err := r.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	counting(t, box)
	pauser := box.(runtime.Pauser)
	for range 2 {
		if err := pauser.Pause(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	if _, err := agent.New(box.Dial).Ping(ctx); err == nil {
		t.Error("a paused agent answers")
	}
	cancel()
	idle(t, box)
	for range 2 {
		if err := pauser.Resume(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	beyond(t, box, count(t, box))

	// A paused sandbox can be attached to, and destroyed.
	if err := pauser.Pause(context.Background()); err != nil {
		t.Fatal(err)
	}
	again, err := open(t, dir).Attach(context.Background(), box.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.(runtime.Pauser).Resume(context.Background()); err != nil {
		t.Error(err)
	}
	if err := again.(runtime.Pauser).Pause(context.Background()); err != nil {
		t.Error(err)
	}
	if err := box.Destroy(context.Background()); err != nil {
		t.Error(err)
	}
	if err := pauser.Pause(context.Background()); !errors.Is(err, runtime.ErrGone) {
		t.Errorf("pause one that is gone: %v", err)
	}
}

// idle waits until a sandbox takes almost no processor time for a while. On a busy machine its unfinished work, and that
// of the kernel inside, may take some.
func idle(t *testing.T, box runtime.Sandbox) {
	t.Helper()
	cpu := func() time.Duration {
		u, err := box.Usage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if u.CPU == nil {
			t.Log("nothing measures the sandbox's processor time")
			return 0
		}
		return *u.CPU
	}
	for until, was := time.Now().Add(patience), cpu(); ; {
		time.Sleep(300 * time.Millisecond)
		now := cpu()
		if now-was < 20*time.Millisecond {
			return
		}
		if was = now; time.Now().After(until) {
			t.Fatal("paused, it takes processor time")
		}
	}
}

// A snapshot has the processes, their memory and the files, and any number of sandboxes continue from it.
func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s := spec()
	box, err := r.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	counting(t, box)
	run(t, box, "echo kept >/tmp/file; mkdir -p deep/er; echo deeper >deep/er/file")
	before, err := agent.New(box.Dial).Ping(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	at := count(t, box)
	saved := snapshot(t, box)
	beyond(t, box, count(t, box)) // it continues

	var twins []runtime.Sandbox
	for range 2 {
		again := s
		again.ID = belljar.NewID()
		twin, err := r.Restore(context.Background(), again, saved)
		if err != nil {
			t.Fatal(err)
		}
		twins = append(twins, twin)
		if twin.ID() != again.ID {
			t.Errorf("it is %s, want %s", twin.ID(), again.ID)
		}
		if info, err := agent.New(twin.Dial).Ping(context.Background()); err != nil || info.BootID != before.BootID || info.Execs < before.Execs {
			t.Errorf("%+v, %v; before %+v", info, err, before)
		}
		if n := count(t, twin); n < at {
			t.Errorf("the counter is at %d, and was at %d", n, at)
		}
		beyond(t, twin, count(t, twin))
		if got := run(t, twin, "cat /tmp/file deep/er/file; stat -c %u n"); got != "kept\ndeeper\n1000\n" {
			t.Errorf("%q", got)
		}
	}
	run(t, twins[0], "echo mine >own")
	if got := run(t, twins[1], "ls own 2>/dev/null || echo none"); got != "none\n" {
		t.Errorf("the twins share a workspace: %q", got)
	}
	// A restored sandbox can be saved too, after the first one is gone.
	if err := errors.Join(box.Destroy(context.Background()), twins[1].Destroy(context.Background())); err != nil {
		t.Fatal(err)
	}
	third := snapshot(t, twins[0])
	again := s
	again.ID = belljar.NewID()
	box, err = r.Restore(context.Background(), again, third)
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, box, "cat own"); got != "mine\n" {
		t.Errorf("%q", got)
	}
	beyond(t, box, count(t, box))
}

// snapshot saves a sandbox.
func snapshot(t *testing.T, box runtime.Sandbox) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "snapshot")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := box.(runtime.Snapshotter).Snapshot(context.Background(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A damaged or foreign snapshot is refused, and leaves nothing.
func TestRestore(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s := spec()
	box, err := r.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	saved := snapshot(t, box)
	if err := box.Destroy(context.Background()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(*testing.T, *gvisor.Runtime, string, string, runtime.Spec){
		"refuses": restoreRefuses, "of damaged": restoreOfDamaged, "by others": restoreByOthers,
	} {
		t.Run(name, func(t *testing.T) { test(t, r, dir, saved, s) })
	}
}

// A spec that does not fit the snapshot is refused, and leaves nothing.
func restoreRefuses(t *testing.T, r *gvisor.Runtime, dir, saved string, s runtime.Spec) {
	empty := t.TempDir()
	cut := filepath.Join(t.TempDir(), "cut")
	if err := os.CopyFS(cut, os.DirFS(saved)); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Chmod(cut, 0o700), os.Truncate(filepath.Join(cut, "state", "checkpoint.img"), 100)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// runsc refuses damage that the sums do not show, as it does on a machine whose processors lack a feature.
	unfit := filepath.Join(t.TempDir(), "unfit")
	if err := os.CopyFS(unfit, os.DirFS(saved)); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(unfit, "belljar.json"))
	if err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(filepath.Join(unfit, "state", "checkpoint.img"))
	if err != nil {
		t.Fatal(err)
	}
	before, after := sha256.Sum256(image), sha256.Sum256(image[:100])
	raw = bytes.Replace(raw, []byte(hex.EncodeToString(before[:])), []byte(hex.EncodeToString(after[:])), 1)
	for _, err := range []error{
		os.Chmod(unfit, 0o700), os.WriteFile(filepath.Join(unfit, "belljar.json"), raw, 0o600), os.Truncate(filepath.Join(unfit, "state", "checkpoint.img"), 100),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		dir    string
		change func(*runtime.Spec)
	}{
		"nothing":           {filepath.Join(empty, "none"), func(*runtime.Spec) {}},
		"empty":             {empty, func(*runtime.Spec) {}},
		"damaged":           {cut, func(*runtime.Spec) {}},
		"unfit":             {unfit, func(*runtime.Spec) {}},
		"another workspace": {saved, func(s *runtime.Spec) { s.Workspace.Bytes *= 2 }},
		"another image":     {saved, func(s *runtime.Spec) { s.Root.Digest = "sha256:0" }},
		"other limits":      {saved, func(s *runtime.Spec) { s.Limits.Pids++; s.Limits.NProc++ }},
		"another user":      {saved, func(s *runtime.Spec) { s.Root.UID = 1001 }},
	} {
		t.Run(name, func(t *testing.T) {
			again := s
			again.ID = belljar.NewID()
			c.change(&again)
			_, err := r.Restore(context.Background(), again, c.dir)
			if step := (*runtime.StepError)(nil); !errors.As(err, &step) || step.Step != runtime.StepSnapshot {
				t.Errorf("%v", err)
			}
			nothingLeft(t, dir)
		})
	}
	again := s
	again.ID, again.Lease = belljar.NewID(), s.Lease+time.Hour // as in a pool
	box, err := r.Restore(context.Background(), again, saved)
	if err != nil {
		t.Fatalf("the snapshot itself: %v", err)
	}
	if err := box.Destroy(context.Background()); err != nil {
		t.Error(err)
	}
}

// A daemon may die while a sandbox is saved. The next one finds the sandbox intact, and its agent answers.
func TestAttachWhileSaved(t *testing.T) {
	dir := t.TempDir()
	box, err := open(t, dir).Create(context.Background(), spec())
	if err != nil {
		t.Fatal(err)
	}
	run(t, box, "head -c 10000000 /dev/urandom >much") // so that the snapshot takes a while
	next := open(t, dir)
	state := filepath.Join(folderFor(t), "state")
	if err := errors.Join(os.Mkdir(state, 0o700), os.Chmod(state, 0o777)); err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	made, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(made)
	if _, err := unix.InotifyAddWatch(made, state, unix.IN_MODIFY); err != nil {
		t.Fatal(err)
	}
	conn, err := box.(interface {
		DialSocket(ctx context.Context, socket string) (net.Conn, error)
	}).DialSocket(context.Background(), "order.sock")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.(*net.UnixConn).WriteMsgUnix([]byte(`{"order":"save"}`), unix.UnixRights(int(folder.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Read(made, make([]byte, 4096)); err != nil { // the snapshot has begun
		t.Fatal(err)
	}
	conn.Close()
	again, err := next.Attach(context.Background(), box.ID())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := agent.New(again.Dial).Ping(ctx); err != nil {
		t.Error(err)
	}
}
