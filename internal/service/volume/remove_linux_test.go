package volume

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/need"
)

// unlocked is a log that records whether the volumes are locked during its writes.
type unlocked struct {
	slog.Handler
	of     *Volumes
	logged int
	locked bool
}

func (u *unlocked) Enabled(context.Context, slog.Level) bool { return true }

func (u *unlocked) Handle(context.Context, slog.Record) error {
	u.logged++
	if !u.of.mu.TryLock() {
		u.locked = true
		return nil
	}
	u.of.mu.Unlock()
	return nil
}

// keep prevents the removal of a workspace's folder, until the test ends.
func keep(t *testing.T, w *world, dir string) {
	t.Helper()
	held := filepath.Join(dir, "held")
	if err := os.Mkdir(held, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("held", held, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, _ := filepath.Glob(filepath.Join(w.opts.Dir, "*", "held"))
		for _, path := range left {
			if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	})
}

// The bytes of a volume are removed without the lock that all admissions need. A failed removal shows when that happens.
func TestRemoveWithoutLock(t *testing.T) {
	need.Root(t)
	log := &unlocked{Handler: slog.DiscardHandler}
	w := open(t, t.TempDir(), func(o *Options) { o.Log = slog.New(log) })
	log.of = w.Volumes
	make1(t, w, alice, "a", 10)
	keep(t, w, w.folder(alice.ID, "a"))
	if err := w.As(alice).Remove(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if log.logged != 1 || log.locked {
		t.Errorf("%d errors, locked: %v", log.logged, log.locked)
	}
	make1(t, w, alice, "a", 10)
}

// The same applies to a volume that a concurrent request made first.
func TestDiscardWithoutLock(t *testing.T) {
	need.Root(t)
	log := &unlocked{Handler: slog.DiscardHandler}
	w := open(t, t.TempDir(), func(o *Options) { o.Log = slog.New(log) })
	log.of = w.Volumes
	made := w.opts.Make
	w.opts.Make = func(path string, bytes, inodes int64) error {
		w.opts.Make = made
		keep(t, w, filepath.Dir(path))
		make1(t, w, alice, "a", 10)
		return made(path, bytes, inodes)
	}
	if _, err := w.As(alice).Create(t.Context(), belljar.VolumeSpec{Name: "a", MB: 10}); code(err) != belljar.CodeConflict {
		t.Error(err)
	}
	if log.logged != 1 || log.locked {
		t.Errorf("%d errors, locked: %v", log.logged, log.locked)
	}
}
