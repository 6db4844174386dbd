package cli_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/program"
)

// TestNothingLeft: after belljar ends, no trace of its sandbox remains, however the run ended.
func TestNothingLeft(t *testing.T) {
	program.NeedNative(t)
	run := t.TempDir()
	t.Setenv("TMPDIR", run)
	for name, args := range map[string][]string{
		"success":     {"--", "true"},
		"failure":     {"--", "false"},
		"not found":   {"--", "no-such-command"},
		"timeout":     {"--timeout", "0.2", "--", "sh", "-c", "trap '' TERM; setsid sleep 60 & sleep 60"},
		"descendants": {"--", "sh", "-c", "setsid sleep 60 & (setsid sleep 60 &) ; exit 0"},
		"artifacts":   {"--capture", "*", "--", "sh", "-c", "echo x > a; echo y > b"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "belljar", append([]string{"run", "--json"}, args...)...)
			out, err := cmd.Output()
			var got belljar.Run
			if json.Unmarshal(out, &got) != nil || got.ID == "" {
				t.Fatalf("no run: %v\n%s", err, out)
			}
			for _, trace := range traces(t, got.ID) {
				t.Errorf("left: %s", trace)
			}
		})
	}
	left, err := os.ReadDir(run)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

// traces returns every place on this machine that still carries a run's name.
func traces(t *testing.T, id string) (found []string) {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/run/belljar", "/dev/shm/belljar"} {
		err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
			if err == nil && strings.Contains(filepath.Base(name), id) {
				found = append(found, name)
			}
			return nil // another run has removed it
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), id) {
		found = append(found, "a mount")
	}
	if program.Alive(t, id) {
		found = append(found, "a process")
	}
	return found
}
