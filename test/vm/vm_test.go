//go:build linux

package vm_test

import (
	"strings"
	"testing"

	"github.com/belljar/belljar/test/vm"
)

// The machine itself: what it promises to the tests that run in it.
func TestMachine(t *testing.T) {
	vm.Need(t)
	busybox := "/bin/busybox"
	results := vm.Run(t, vm.Spec{
		Files: map[string]string{"/opt/file": "/etc/os-release"},
		Commands: []vm.Command{
			{Program: busybox, Args: []string{"sh", "-c", `cat /sys/fs/cgroup/cgroup.controllers; stat -f -c %t /sys/fs/cgroup; printf "$GREETING"`}, Env: []string{"GREETING=it's me"}},
			{Program: busybox, Args: []string{"sh", "-c", "test -s /opt/file && exit 7"}},
			{Program: busybox, Args: []string{"sh", "-c", "kill -9 $$"}},
			{Program: busybox, Args: []string{"unshare", "-m", "sh", "-c", "mkdir -p /mnt/new && mount -t tmpfs x /mnt/new && mkdir /mnt/new/old && pivot_root /mnt/new /mnt/new/old && /old/usr/bin/busybox echo pivoted"}},
		},
	})
	for _, want := range []string{"cpu", "memory", "pids", "63677270", "it's me"} {
		if !strings.Contains(results[0].Output, want) {
			t.Errorf("no %q in %q", want, results[0].Output)
		}
	}
	if !strings.HasSuffix(results[0].Output, "it's me") {
		t.Errorf("the output's end is not the program's: %q", results[0].Output)
	}
	if results[1].Status != 7 || results[2].Status != 137 {
		t.Errorf("status %d and %d, want 7 and 137", results[1].Status, results[2].Status)
	}
	if results[3].Status != 0 || results[3].Output != "pivoted\n" {
		t.Errorf("the root cannot be pivoted away from: %+v", results[3])
	}
}

// The packages whose behaviour depends on the kind of cgroups pass their tests on cgroup v2 alone.
func TestCgroups(t *testing.T) {
	vm.Need(t)
	passes(t, vm.Spec{Commands: []vm.Command{
		{Program: vm.Test(t, "internal/linux/cgroup"), Args: []string{"-test.v", "-test.shuffle=on"}},
	}})
}

func TestNativeRuntime(t *testing.T) {
	vm.Need(t)
	passes(t, vm.Spec{
		Files: map[string]string{"/belljar-agent": vm.Program(t, "cmd/belljar-agent")},
		Commands: []vm.Command{{
			Program: vm.Test(t, "internal/runtime/native"),
			// Tens of megabytes through an emulated processor take minutes, busybox has words of its own for a full disk,
			// and TestEndsWithItsCreator does what the suite leaves to it. An ordinary user without a delegated cgroup meets
			// none of this kernel's groups, so TestRootless would only be slower here. None of this has to do with cgroups.
			Args: []string{"-test.v", "-test.shuffle=on", "-test.skip=" +
				"TestConformance/output/slow_reader|TestConformance/stdin/large|TestConformance/attach/after_a_lost|TestConformance/attach/after_a_restart|TestConformance/walls/disk|TestConformance/lifetime/creator|TestRootless"},
			Env: []string{"BELLJAR_TEST_AGENT=/belljar-agent"},
		}},
	})
}

// passes runs test programs. Here is where they need not skip anything, so they must not.
func passes(t *testing.T, s vm.Spec) {
	t.Helper()
	for i, r := range vm.Run(t, s) {
		if r.Status != 0 {
			t.Errorf("%s: status %d", s.Commands[i].Program, r.Status)
		}
		for line := range strings.Lines(r.Output) {
			if strings.HasPrefix(strings.TrimSpace(line), "--- SKIP") {
				t.Errorf("%s: %s", s.Commands[i].Program, line)
			}
		}
	}
}
