//go:build linux

package e2e

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/dockerd"
	"github.com/belljar/belljar/test/tier"
)

// built are the programs under test.
var built build.Programs

func TestMain(m *testing.M) {
	tier.Parallel(3)
	os.Exit(build.Main(func(_ string, p build.Programs) int {
		built = p
		return dockerd.Main(m)
	}))
}

// TestConsecutiveRuns makes many sandboxes in one process, one after the other.
func TestConsecutiveRuns(t *testing.T) {
	soak(t, "-consecutive", strconv.Itoa(tier.Rounds(t, 40, 1000)))
}

// TestParallelRuns makes many sandboxes in one process that all live at the same time.
func TestParallelRuns(t *testing.T) { soak(t, "-parallel", strconv.Itoa(tier.Rounds(t, 30, 200))) }

func soak(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), built.Soak, append(args, "-agent", built.Agent)...)
	if os.Geteuid() == 0 { // the soak counts mounts, and other tests make some
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// TestCommandLineRuns runs the binary many times.
func TestCommandLineRuns(t *testing.T) {
	for i := range tier.Rounds(t, 5, 50) {
		tmp := t.TempDir()
		cmd := exec.CommandContext(t.Context(), built.Belljar, "run", "--json", "--quiet", "--", "/bin/true")
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
		out, err := cmd.Output()
		var run belljar.Run
		if err == nil {
			err = json.Unmarshal(out, &run)
		}
		if err != nil || run.Phase != belljar.PhaseCompleted {
			t.Fatalf("run %d: %v %s", i, err, out)
		}
		for _, root := range []string{"/sys/fs/cgroup", "/run/belljar", "/dev/shm/belljar", os.Getenv("XDG_RUNTIME_DIR")} {
			for _, path := range named(root, run.ID) {
				t.Errorf("run %d left %s", i, path)
			}
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("run %d left in its temporary folder: %v, %v", i, left, err)
		}
	}
}

// named lists the paths below root whose name contains part.
func named(root, part string) []string {
	var found []string
	groups := strings.HasPrefix(root, "/sys/fs/cgroup")
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if strings.Contains(filepath.Base(path), part) {
			found = append(found, path)
		}
		if err == nil && groups && leaf(d) {
			return fs.SkipDir
		}
		return nil // removed by another process
	})
	return found
}

// leaf reports whether a cgroup has no child. Its files have no names of ours, and there are dozens.
func leaf(d fs.DirEntry) bool {
	if !d.IsDir() {
		return false
	}
	info, err := d.Info()
	return err == nil && info.Sys().(*syscall.Stat_t).Nlink == 2
}
