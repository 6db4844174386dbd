package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/sqlite"
	"github.com/belljar/belljar/test/need"
)

// fullDir makes this test program the process with a small disk of its own.
const fullDir = "BELLJAR_TEST_FULL_DIR"

// TestDiskFull fills a real disk of 2 MB, in a mount namespace that ends with its process.
func TestDiskFull(t *testing.T) {
	need.Root(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), fullDir+"="+t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := child.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		need.Missing(t, "mount namespaces: %v", err)
	}
	if err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// fillDisk checks that a store on a full disk returns ErrFull, keeps its rows, and continues when there is room.
func fillDisk(dir string) error {
	if err := errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m")); err != nil {
		return err
	}
	ctx := context.Background()
	path := filepath.Join(dir, "store.db")
	s, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	if err != nil {
		return err
	}
	insert := func(id string) error {
		_, err := s.Runs().Insert(ctx, store.Run{Run: belljar.Run{ID: id, UserID: "ann", Phase: belljar.PhaseQueued, CreatedAt: time.Now(), Message: strings.Repeat("x", 9000)}}, nil)
		return err
	}
	stored := []string{}
	for err = error(nil); err == nil && len(stored) < 1000; {
		id := fmt.Sprint(len(stored))
		if err = insert(id); err == nil {
			stored = append(stored, id)
		}
	}
	if !errors.Is(err, store.ErrFull) || len(stored) == 0 {
		return fmt.Errorf("after %d runs: %w, want that it is full", len(stored), err)
	}
	if err := s.Ping(ctx); err != nil && !errors.Is(err, store.ErrFull) { // such a small write may succeed
		return fmt.Errorf("ping: %w", err)
	}
	all := func() error {
		for _, id := range stored {
			if _, err := s.Runs().Get(ctx, id); err != nil {
				return fmt.Errorf("run %s: %w", id, err)
			}
		}
		_, total, err := s.Runs().List(ctx, belljar.RunQuery{})
		if err != nil || total != len(stored) {
			return fmt.Errorf("%d runs on record, error %w, want %d", total, err, len(stored))
		}
		return nil
	}
	if err := all(); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=32m"); err != nil {
		return err
	}
	if err := insert("more"); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	stored = append(stored, "more")
	if err := all(); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	// A server that cannot start on a full disk reports the reason.
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 33<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	s, err = sqlite.Open(ctx, sqlite.Options{Path: path})
	if err == nil {
		return errors.Join(s.Ping(ctx), errors.New("it opened on a full disk"))
	}
	if !errors.Is(err, store.ErrFull) || belljar.HintOf(err) != "free space on the disk" {
		return fmt.Errorf("open: %w, hint %q", err, belljar.HintOf(err))
	}
	return nil
}
