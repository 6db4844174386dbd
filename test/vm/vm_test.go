//go:build linux

package vm_test

import (
	"strings"
	"testing"

	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/vm"
)

// One boot of the machine checks the properties that tests in it rely on, and runs the tests that depend on the kind of cgroups:
// package cgroup's, and the native runtime's about limits and about the groups that sandboxes leave.
func TestCgroupV2(t *testing.T) {
	vm.Need(t)
	machine := []vm.Command{
		busybox(`cat /sys/fs/cgroup/cgroup.controllers; stat -f -c %t /sys/fs/cgroup; printf "$GREETING"`, "GREETING=it's me"),
		busybox("test -s /opt/file && exit 7"),
		busybox("kill -9 $$"),
		busybox("unshare -m sh -c 'mkdir -p /mnt/new && mount -t tmpfs x /mnt/new && mkdir /mnt/new/old && pivot_root /mnt/new /mnt/new/old && /old/usr/bin/busybox echo pivoted'"),
	}
	spec := vm.Spec{
		Files: map[string]string{"/opt/file": "/etc/os-release", "/belljar-agent": agent(t)},
		Commands: append(machine, cgroup(t), native(t, "-test.run="+strings.Join([]string{
			"TestConformance/^memory$", `TestConformance/^claim$/^(is_the_caller|has_its_memory|what_cannot_be_enforced)`,
			"TestConformance/^protections$/^(memory|pids)$", "TestKilledWhileClaiming/^linked,_swept$",
			"^Test(RootEnforcesEverything|TasksAreThreads|ClaimedLimits|Crowded|SurvivesItsDaemon)$",
		}, "|"))),
	}
	results := vm.Run(t, spec)
	promised(t, results[:len(machine)])
	passed(t, spec.Commands[len(machine):], results[len(machine):])
}

func busybox(script string, env ...string) vm.Command {
	return vm.Command{Program: "/bin/busybox", Args: []string{"sh", "-c", script}, Env: env}
}

// promised checks the machine itself.
func promised(t *testing.T, results []vm.Result) {
	t.Helper()
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

// agent is the agent's program.
func agent(t *testing.T) string {
	t.Helper()
	path, err := build.Agent(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func cgroup(t *testing.T) vm.Command {
	return vm.Command{Program: vm.Test(t, "internal/linux/cgroup"), Args: []string{"-test.v", "-test.shuffle=on"}}
}

// native returns the tests of the native runtime. Its agent is /belljar-agent.
func native(t *testing.T, args ...string) vm.Command {
	return vm.Command{
		Program: vm.Test(t, "internal/runtime/native"), Args: append([]string{"-test.v", "-test.shuffle=on"}, args...),
		Env: []string{"BELLJAR_TEST_AGENT=/belljar-agent"},
	}
}

// passed checks the output of test programs. The machine has everything that they need, so they must not skip anything.
func passed(t *testing.T, commands []vm.Command, results []vm.Result) {
	t.Helper()
	for i, r := range results {
		if r.Status != 0 {
			t.Errorf("%s: status %d", commands[i].Program, r.Status)
		}
		if !strings.Contains(r.Output, "--- PASS") {
			t.Errorf("%s: no test ran", commands[i].Program)
		}
		for line := range strings.Lines(r.Output) {
			if strings.HasPrefix(strings.TrimSpace(line), "--- SKIP") {
				t.Errorf("%s: %s", commands[i].Program, line)
			}
		}
	}
}
