//go:build ignore

// This program writes the system call policies that belljar-runsc enforces. go generate runs it.
package main

import (
	"log"
	"os"

	"github.com/belljar/belljar/internal/linux/seccomp"
	"github.com/belljar/belljar/internal/runtime/gvisor"
)

func main() {
	for _, arch := range []string{"amd64", "arm64"} {
		program, err := seccomp.Combined(gvisor.PolicyOptions(arch))
		if err == nil {
			err = os.WriteFile("../../../gvisor/policy_"+arch+".bpf", program.Bytes(), 0o644)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}
