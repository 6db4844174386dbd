//go:build linux && soak

package vm_test

import (
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/vm"
)

// TestSoakNodeMemory has a server hold all sandboxes to the node's bound on cgroup v2 alone, by use and by caps.
func TestSoakNodeMemory(t *testing.T) {
	vm.Need(t)
	made, err := build.Into(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"/programs/" + filepath.Base(made.Belljar): made.Belljar}
	for _, path := range made.Paths() {
		if path != made.Belljar { // the others are not used, and every byte takes its time to get in there
			files["/programs/"+filepath.Base(path)] = "/etc/os-release"
		}
	}
	spec := vm.Spec{MemoryMB: 1024, Files: files, Commands: []vm.Command{{
		Program: vm.Test(t, "test/e2e"), Args: []string{"-test.v", "-test.run=^(TestNodeMemory|TestMemoryAdmissionByCaps)$"},
		Env: []string{"BELLJAR_TEST_PROGRAMS=/programs", "BELLJAR_TEST_ALONE=1", "SANDBOX_MIN_FREE_MB=0"}, // all of its memory is its disk
	}}}
	passed(t, spec.Commands, vm.Run(t, spec))
}
