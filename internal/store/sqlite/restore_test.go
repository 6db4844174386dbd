package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/sqlite"
)

// A backup that is restored next to the write-ahead log of a killed server is refused: SQLite would merge the two.
func TestRestoredNextToAnotherLog(t *testing.T) {
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "store.db"), filepath.Join(dir, "backup.db")
	s := open(t, path)
	finishRun(t, s, addRun(t, s, "before"))
	change(t, raw(t, path), "VACUUM INTO ?", backup) // as docs/production.md has it
	addRun(t, s, "after")
	disk := filepath.Join(dir, "disk.db") // as a killed server leaves it
	for from, to := range map[string]string{backup: disk, path + "-wal": disk + "-wal"} {
		content, err := os.ReadFile(from)
		if err != nil || len(content) == 0 {
			t.Fatalf("%s: %d bytes, %v", from, len(content), err)
		}
		if err := os.WriteFile(to, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	restored, err := os.ReadFile(disk)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := sqlite.Open(t.Context(), sqlite.Options{Path: disk}); err == nil {
		s.Close()
		t.Fatal("the log of another file is merged")
	} else if !strings.Contains(err.Error(), "write-ahead log") || !strings.Contains(belljar.HintOf(err), "remove "+disk+"-wal") {
		t.Errorf("%v, hint %q", err, belljar.HintOf(err))
	}
	if now, err := os.ReadFile(disk); err != nil || !bytes.Equal(now, restored) {
		t.Errorf("the refused file has changed, %v", err)
	}
	if err := os.Remove(disk + "-wal"); err != nil {
		t.Fatal(err)
	}
	again := open(t, disk)
	if r, err := again.Runs().Get(t.Context(), "before"); err != nil || r.Phase != belljar.PhaseCompleted {
		t.Errorf("the backup: %+v, %v", r, err)
	}
	if _, err := again.Runs().Get(t.Context(), "after"); err != store.ErrNotFound {
		t.Errorf("of after the backup: %v", err)
	}
}
