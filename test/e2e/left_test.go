//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/linux/rundir"
)

// nothingLeft checks that a server that has ended has left only its data folder on this machine. Processes that were
// killed last may take a moment to end.
func nothingLeft(t *testing.T, data string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(data, "installation"))
	if err != nil {
		t.Fatal(err)
	}
	installation := strings.TrimSpace(string(raw))
	deadline := time.NewTimer(goneTime)
	defer deadline.Stop()
	for again := time.NewTicker(50 * time.Millisecond); ; {
		left := leftOf(installation, data)
		if len(left) == 0 {
			return
		}
		select {
		case <-again.C:
		case <-deadline.C:
			t.Errorf("left on this machine:\n%s", strings.Join(left, "\n"))
			return
		}
	}
}

// leftOf lists everything that belongs to an installation: cgroups, files, and processes that are in such a cgroup, have
// its folders mounted or its files open.
func leftOf(installation, data string) (left []string) {
	for _, path := range named("/sys/fs/cgroup", installation) {
		left = append(left, "cgroup "+path)
	}
	if files, err := os.ReadDir(filepath.Join(rundir.Default(), "native", installation)); err == nil {
		for _, f := range files {
			left = append(left, "file "+f.Name())
		}
	}
	if len(left) > 0 {
		return left // the other searches take longer
	}
	table := process.ReadTable()
	self := table[os.Getpid()]
	for pid, x := range table {
		if x.Start < self.Start {
			continue // it is older than all servers of the tests, as most processes are
		}
		if x.Zombie && x.Parent == 1 {
			continue // it has ended, and init will reap it
		}
		for _, file := range []string{"cgroup", "mountinfo", "cmdline"} {
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)); err == nil && strings.Contains(string(text), installation) {
				status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
				left = append(left, fmt.Sprintf("process %d by its %s\n%.400s", pid, file, status))
			}
		}
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is valid
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && (strings.Contains(to, installation) || strings.HasPrefix(to, data+"/")) {
				left = append(left, "descriptor "+link+" of "+to)
			}
		}
	}
	return left
}
