package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// olderLine encodes a run as a line of such a file.
func olderLine(t testing.TB, r store.Run) []byte {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(text), text)
}

// TestOlderFiles checks that runs that an older version left in files next to the database are imported once. A torn or changed line
// loses only its own run.
func TestOlderFiles(t *testing.T) {
	var lines []byte
	for n := range 2 {
		at := time.Date(2026, 3, 1, 12, 0, n, 0, time.UTC)
		lines = append(lines, olderLine(t, store.Run{Run: belljar.Run{
			ID: fmt.Sprint("run", n), UserID: "ann", Phase: belljar.PhaseCompleted, CreatedAt: at, FinishedAt: &at, ExitCode: new(0),
		}})...)
	}
	for name, damaged := range map[string]string{
		"torn":    string(lines[:len(lines)-20]),
		"changed": string(lines[:len(lines)-20]) + "\x01" + string(lines[len(lines)-19:]),
		"strange": "\n\nabc\n00000000 {}\n" + string(lines[:len(lines)/2]),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			for _, name := range []string{path + "-behind0", path + "-behind1"} { // both files, so that each run is found twice
				if err := os.WriteFile(name, []byte(damaged), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := Open(t.Context(), Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Runs().Get(t.Context(), "run0"); err != nil {
				t.Error(err)
			}
			if _, total, err := s.Runs().List(t.Context(), belljar.RunQuery{}); err != nil || total != 1 {
				t.Errorf("%d runs, %v", total, err)
			}
			for _, name := range []string{path + "-behind0", path + "-behind1"} {
				if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s stays: %v", name, err)
				}
			}
		})
	}
}
