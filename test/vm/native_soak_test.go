//go:build linux && soak

package vm_test

import (
	"testing"

	"github.com/belljar/belljar/test/vm"
)

// TestSoakNativeRuntime has the native runtime pass its tests on cgroup v2 alone. TestCgroupV2 runs those that depend on it most.
func TestSoakNativeRuntime(t *testing.T) {
	vm.Need(t)
	spec := vm.Spec{
		Files: map[string]string{"/belljar-agent": agent(t)},
		// Tens of megabytes through an emulated processor take minutes, busybox has words of its own for a full disk,
		// and TestEndsWithItsCreator does what the suite leaves to it. An ordinary user without a delegated cgroup meets
		// none of this kernel's groups, so TestRootless would only be slower here. The machine has one processor, no loop
		// devices, no overlays, and no program that uses a network. None of this has to do with cgroups.
		Commands: []vm.Command{native(t, "-test.skip="+
			"TestConformance/output/slow_reader|TestConformance/stdin/large|TestConformance/attach/after_a_lost|TestConformance/attach/after_a_restart|TestConformance/walls/disk|TestConformance/lifetime/creator|"+
			"TestConformance/relay|TestRootless|TestDisk|TestMemoryOverFiles|TestMemoryWithoutAProcessor")},
	}
	passed(t, spec.Commands, vm.Run(t, spec))
}
