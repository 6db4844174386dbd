//go:build linux

package file

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSwap tests that two files are exchanged, and that a failure leaves both unchanged.
func TestSwap(t *testing.T) {
	for name, c := range map[string]struct {
		obstacle string // an existing file that blocks the swap
		want     error
	}{
		"both": {"", nil}, "no room aside": {"from/" + aside, unix.EEXIST},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"from/x": "new", "to/y": "old"}
			if c.obstacle != "" {
				files[c.obstacle] = "in the way"
			}
			var open [2]*os.File
			for i, folder := range []string{"from", "to"} {
				if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
					t.Fatal(err)
				}
				var err error
				if open[i], err = os.Open(filepath.Join(dir, folder)); err != nil {
					t.Fatal(err)
				}
				defer open[i].Close()
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := swap(int(open[0].Fd()), "x", int(open[1].Fd()), "y")
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if err == nil {
				files["from/x"], files["to/y"] = "old", "new"
			}
			for name, text := range files {
				if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != text {
					t.Errorf("%s: %q, %v; want %q", name, got, err, text)
				}
			}
			if err := swap(int(open[0].Fd()), "missing", int(open[1].Fd()), "y"); c.want == nil && !errors.Is(err, unix.ENOENT) {
				t.Errorf("nothing to swap: %v", err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "to/y")); string(got) != files["to/y"] {
				t.Errorf("it is gone: %q, %v", got, err)
			}
		})
	}
}
