//go:build linux && soak

package vm_test

import (
	"testing"

	"github.com/belljar/belljar/test/vm"
)

// TestSoakNativeRuntime runs the native runtime's tests with only cgroup v2. TestCgroupV2 runs those that depend on it most.
func TestSoakNativeRuntime(t *testing.T) {
	vm.Need(t)
	spec := vm.Spec{
		Files: map[string]string{"/belljar-agent": agent(t)},
		// Tens of megabytes through an emulated processor take minutes. Busybox has other messages for a full disk.
		// TestEndsWithItsCreator covers what the suite leaves to it. An ordinary user without a delegated cgroup uses none of this
		// kernel's groups, so TestRootless would only be slower here. The machine has one processor, no loop devices, no overlays, and
		// no program that uses a network. None of this has to do with cgroups.
		Commands: []vm.Command{native(t, "-test.skip="+
			"TestConformance/output/slow_reader|TestConformance/stdin/large|TestConformance/attach/after_a_lost|TestConformance/attach/after_a_restart|TestConformance/protections/disk|TestConformance/lifetime/creator|"+
			"TestConformance/relay|TestRootless|TestDisk|TestMemoryOverFiles|TestMemoryHeld|TestMemoryWithoutAProcessor")},
	}
	passed(t, spec.Commands, vm.Run(t, spec))
}
