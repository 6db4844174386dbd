//go:build linux

package jar

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// last is the last point at which the daemon of these tests is killed.
const last = 16

// killedAt is a daemon that makes a jar, claims it and destroys it, and is killed at a point from 1 to last.
func killedAt(dir string, point int) error {
	n := 0
	reach := func() {
		if n++; n == point {
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	r, err := openSelf(dir)
	if err != nil {
		return err
	}
	r.Reached = func(string) { reach() }
	made, err := bear(context.Background(), r, "blank", false, reach)
	if err != nil {
		return err
	}
	if _, err := r.Claim(context.Background(), "blank", "mine", func(Box) error { reach(); return nil }); err != nil {
		return err
	}
	reach()
	if err := made.Signal(unix.SIGKILL); err != nil {
		return err
	}
	if err := made.Await(context.Background()); err != nil {
		return err
	}
	reach()
	if err := made.Destroy(context.Background()); err != nil {
		return err
	}
	reach()
	return fmt.Errorf("it came to its end, at point %d", n)
}

// If a daemon is killed at any point, the next process removes all of its remains, by name or by a sweep.
func TestKilledAnywhere(t *testing.T) {
	for point := 1; point <= last; point++ {
		for _, way := range []string{"removed", "swept and removed"} {
			t.Run(fmt.Sprintf("%d, %s", point, way), func(t *testing.T) {
				dir := tempDir(t)
				daemon := exec.Command(os.Args[0])
				daemon.Env = append(os.Environ(), "BELLJAR_TEST_KILLED_AT="+fmt.Sprint(point), "BELLJAR_TEST_DIR="+dir)
				var words strings.Builder
				daemon.Stderr = &words
				if err := daemon.Run(); !strings.Contains(fmt.Sprint(err), "killed") {
					if strings.Contains(words.String(), "clone: ") && os.Geteuid() != 0 {
						t.Skip("no user namespaces here: ", words.String())
					}
					t.Fatalf("the daemon ended with %v: %s", err, words.String())
				}
				r := open(t, dir)
				if way != "removed" {
					if _, err := r.Sweep(t.Context()); err != nil {
						t.Errorf("sweep: %v", err)
					}
				}
				ids, err := r.List()
				for _, id := range ids {
					err = errors.Join(err, r.Remove(t.Context(), id))
				}
				if err != nil {
					t.Error(err)
				}
				// A claim of ids without any other part has no name.
				if err := r.IDs.Sweep(); err != nil {
					t.Error(err)
				}
				nothingLeft(t, r)
				noneOpen(t, dir)
			})
		}
	}
}

// noneOpen checks that no process has a file in a folder open.
func noneOpen(t *testing.T, dir string) {
	t.Helper()
	open, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if file, err := os.Readlink(fd); err == nil && (file == dir || strings.HasPrefix(file, dir+"/")) {
			args, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(fd)), "cmdline"))
			t.Errorf("%s is open: %.80q", file, args)
		}
	}
}
