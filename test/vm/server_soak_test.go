//go:build linux && soak

package vm_test

import (
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/vm"
)

// TestSoakNodeMemory makes a server hold all sandboxes to the node's limit with only cgroup v2, by use and by
// caps.
func TestSoakNodeMemory(t *testing.T) {
	vm.Need(t)
	made, err := build.Into(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"/programs/" + filepath.Base(made.Belljar): made.Belljar}
	for _, path := range made.Paths() {
		if path != made.Belljar { // the other programs are not used, and copying every byte takes time
			files["/programs/"+filepath.Base(path)] = "/etc/os-release"
		}
	}
	spec := vm.Spec{MemoryMB: 1024, Files: files, Commands: []vm.Command{{
		Program: vm.Test(t, "test/e2e"), Args: []string{"-test.v", "-test.run=^(TestNodeMemory|TestMemoryAdmissionByCaps)$"},
		Env: []string{"BELLJAR_TEST_PROGRAMS=/programs", "BELLJAR_TEST_ALONE=1", "SANDBOX_MIN_FREE_MB=0"}, // its disk is part of its memory
	}}}
	passed(t, spec.Commands, vm.Run(t, spec))
}
