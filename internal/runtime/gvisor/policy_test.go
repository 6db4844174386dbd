//go:build linux

package gvisor_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/internal/linux/seccomp"
	"github.com/belljar/belljar/internal/runtime/gvisor"
)

// The policies that are built into belljar-runsc match the filters of the other runtimes.
func TestPolicyIsFresh(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		want, err := seccomp.Combined(gvisor.PolicyOptions(arch))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", "..", "..", "gvisor", "policy_"+arch+".bpf"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("gvisor/policy_%s.bpf is not what it would be made now: go generate ./internal/runtime/gvisor", arch)
		}
	}
}
