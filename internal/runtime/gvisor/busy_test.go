//go:build linux

package gvisor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/gvisor"
	"github.com/belljar/belljar/test/tier"
)

// patience bounds operations that take a moment unless they hang.
const patience = 5 * time.Minute

// folderFor returns a folder for a snapshot.
func folderFor(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "snapshot")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A snapshot of a sandbox with output and input loses nothing and blocks no caller.
func TestSnapshotWhileBusy(t *testing.T) {
	box, err := open(t, t.TempDir()).Create(context.Background(), spec())
	if err != nil {
		t.Fatal(err)
	}
	const size = 30_000_000
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := agent.New(box.Dial).Exec(ctx, sh(fmt.Sprintf("head -c %d /dev/zero", size)))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	begun, printed := make(chan struct{}), make(chan error, 1)
	go func() {
		n := 0
		exit, err := p.Output(ctx, func(_ int64, _ wire.Stream, b []byte) error {
			if n == 0 {
				close(begun)
			}
			n += len(b)
			return nil
		})
		if err == nil && (exit.Code != 0 || n != size) {
			err = fmt.Errorf("%d bytes, %+v", n, exit)
		}
		printed <- err
	}()
	select {
	case <-begun:
	case err := <-printed:
		t.Fatal(err)
	}
	const many = 100 // requests that may wait for their answers simultaneously
	var talk []chan error
	for range 3 {
		saved := make(chan error, 1)
		dir := folderFor(t)
		go func() { saved <- box.(runtime.Snapshotter).Snapshot(ctx, dir) }()
		for over := false; !over; { // long enough that requests arrive at every stage of a snapshot
			if waiting := len(talk) - many; waiting >= 0 { // a busy machine needs longer
				select {
				case err := <-saved:
					if err != nil {
						t.Fatal(err)
					}
					over = true
					continue
				case err := <-talk[waiting]:
					talk[waiting] <- err
				}
			}
			answered := make(chan error, 1)
			talk = append(talk, answered)
			go func() {
				_, err := agent.New(box.Dial).Ping(ctx)
				answered <- err
			}()
			select {
			case err := <-saved:
				if err != nil {
					t.Fatal(err)
				}
				over = true
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	for _, answered := range talk {
		if err := <-answered; err != nil {
			t.Errorf("output during a snapshot: %v", err)
		}
	}
	if err := <-printed; err != nil {
		t.Errorf("what was printed during snapshots: %v", err)
	}
}

// A snapshot contains open files, deleted ones, pipes, children and a terminal.
func TestSnapshotOfOpenThings(t *testing.T) {
	r := open(t, t.TempDir())
	s := spec()
	box, err := r.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	script := `echo deleted >gone; exec 4<gone; rm gone; mkfifo pipe; (read line; echo child $line >child) <pipe &
		read line; cat <&4 >answer; echo $line >>answer; wait; stty size >>answer`
	e := sh(script)
	e.PTY = &wire.Size{Cols: 91, Rows: 23}
	p, err := agent.New(box.Dial).Exec(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	run(t, box, "while ! test -p pipe || test -e gone; do sleep 0.01; done")
	dir := folderFor(t)
	if err := box.(runtime.Snapshotter).Snapshot(context.Background(), dir); err != nil {
		t.Fatal(err)
	}
	again := s
	again.ID = belljar.NewID()
	twin, err := r.Restore(context.Background(), again, dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, box := range map[string]runtime.Sandbox{"saved": box, "restored": twin} {
		q, err := agent.New(box.Dial).Attach(context.Background(), e.ID, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		type end struct {
			exit wire.Exit
			err  error
		}
		over := make(chan end, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			exit, err := q.Output(ctx, func(int64, wire.Stream, []byte) error { return nil })
			over <- end{exit, err}
		}()
		if _, err := q.Write([]byte("typed\n")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		run(t, box, "echo sent >pipe")
		if e := <-over; e.err != nil || e.exit.Code != 0 {
			t.Errorf("%s: %+v, %v", name, e.exit, e.err)
		}
		q.Close()
		if got := run(t, box, "cat answer child"); got != "deleted\ntyped\n23 91\nchild sent\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A cancelled snapshot, or one without enough room, leaves nothing, and the sandbox continues.
func TestSnapshotGivenUp(t *testing.T) {
	box, err := open(t, t.TempDir()).Create(context.Background(), spec())
	if err != nil {
		t.Fatal(err)
	}
	counting(t, box)
	dir := folderFor(t)
	goesOn := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: it was saved", what)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", what, left, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := agent.New(box.Dial).Ping(ctx); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		beyond(t, box, count(t, box))
	}
	for _, after := range []int{0, 10, 20, 30, 40, 50} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(after)*time.Millisecond)
		err := box.(runtime.Snapshotter).Snapshot(ctx, dir)
		cancel()
		if err == nil { // the snapshot was faster
			if err = os.RemoveAll(filepath.Join(dir, "state")); err == nil {
				err = os.Remove(filepath.Join(dir, "belljar.json"))
			}
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		goesOn(fmt.Sprintf("after %d ms", after), err)
	}
	if os.Geteuid() == 0 {
		if err := unix.Mount("none", dir, "tmpfs", 0, "size=256k,mode=700"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
		err := box.(runtime.Snapshotter).Snapshot(context.Background(), dir)
		goesOn("no room", err)
		if !strings.Contains(err.Error(), "no space") {
			t.Errorf("no room: %v", err)
		}
	}
}

// A snapshot with any part damaged is refused, the error names that part, and nothing is made.
func restoreOfDamaged(t *testing.T, r *gvisor.Runtime, dir, saved string, s runtime.Spec) {
	entries, err := os.ReadDir(filepath.Join(saved, "state"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, e := range entries {
		for how, damage := range map[string]func(name string) error{
			"a bit": func(name string) error {
				raw, err := os.ReadFile(name)
				if err == nil {
					raw[len(raw)/2] ^= 1
					err = os.WriteFile(name, raw, 0o644)
				}
				return err
			},
			"cut": func(name string) error { return os.Truncate(name, 1000) },
			"longer": func(name string) error {
				info, err := os.Stat(name)
				if err != nil {
					return err
				}
				return os.Truncate(name, info.Size()+tier.Pick[int64](1<<20, 1<<30))
			},
			"gone": os.Remove,
			"a link": func(name string) error {
				return errors.Join(os.Rename(name, name+".old"), os.Symlink(name+".old", name))
			},
		} {
			t.Run(e.Name()+" "+how, func(t *testing.T) {
				copied := folderFor(t)
				if err := os.CopyFS(copied, os.DirFS(saved)); err != nil {
					t.Fatal(err)
				}
				if err := damage(filepath.Join(copied, "state", e.Name())); err != nil {
					t.Fatal(err)
				}
				again := s
				again.ID = belljar.NewID()
				_, err := r.Restore(context.Background(), again, copied)
				var step *runtime.StepError
				if !errors.As(err, &step) || step.Step != "snapshot" || !strings.Contains(err.Error(), e.Name()) {
					t.Errorf("%v", err)
				}
				nothingLeft(t, dir)
			})
		}
	}
}

// A pause that is cancelled at any point has happened or not. Either way the sandbox can be resumed.
func TestPauseGivenUp(t *testing.T) {
	box, err := open(t, t.TempDir()).Create(context.Background(), spec())
	if err != nil {
		t.Fatal(err)
	}
	pauser := box.(runtime.Pauser)
	for after, quicker := 0, 0; after < 30 && quicker < 3; after += 2 { // once the pause is faster, a longer wait tests nothing new
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(after)*time.Millisecond)
		_ = pauser.Pause(ctx)
		if quicker++; ctx.Err() != nil {
			quicker = 0
		}
		cancel()
		if err := pauser.Resume(context.Background()); err != nil {
			t.Fatalf("after %d ms: %v", after, err)
		}
		ctx, cancel = context.WithTimeout(context.Background(), patience)
		_, err := agent.New(box.Dial).Ping(ctx)
		cancel()
		if err != nil {
			t.Fatalf("after %d ms: %v", after, err)
		}
	}
}

// A snapshot can be restored only by a runtime like the one that saved it.
func restoreByOthers(t *testing.T, r *gvisor.Runtime, dir, from string, s runtime.Spec) {
	saved := folderFor(t)
	if err := os.CopyFS(saved, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(saved, "belljar.json")
	was, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{"gvisor": "gVisor v0", "platform": "the platform v0", "agent": "another belljar", "image": "the image v0"} {
		var usage map[string]any
		if err := json.Unmarshal(was, &usage); err != nil {
			t.Fatal(err)
		}
		usage[field] = "v0"
		text, err := json.Marshal(usage)
		if err == nil {
			err = os.WriteFile(name, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		again := s
		again.ID = belljar.NewID()
		if _, err := r.Restore(context.Background(), again, saved); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", field, err)
		}
		nothingLeft(t, dir)
	}
}
