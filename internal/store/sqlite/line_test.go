package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// TestDamagedLines: a line that is torn or changed costs its run and no other.
func TestDamagedLines(t *testing.T) {
	var lines []byte
	for n := range 2 {
		at := time.Date(2026, 3, 1, 12, 0, n, 0, time.UTC)
		line, err := lineOf(&store.Run{Run: belljar.Run{
			ID: fmt.Sprint("run", n), UserID: "ann", Phase: belljar.PhaseCompleted, CreatedAt: at, FinishedAt: &at, ExitCode: new(0),
		}})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line...)
	}
	for name, damaged := range map[string]string{
		"torn":    string(lines[:len(lines)-20]),
		"changed": string(lines[:len(lines)-20]) + "\x01" + string(lines[len(lines)-19:]),
		"strange": "\n\nabc\n00000000 {}\n" + string(lines[:len(lines)/2]),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			if err := os.WriteFile(path+"-behind1", []byte(damaged), 0o600); err != nil {
				t.Fatal(err)
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
			if _, err := os.Stat(path + "-behind1"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the file stays: %v", err)
			}
		})
	}
}
