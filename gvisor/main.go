// Command belljar-runsc is gVisor's runsc, built from a pinned version of its source, for the gVisor runtime. It is a separate
// program and module, so that belljar includes neither its 80 MB nor its dependencies.
//
// It differs from upstream in six ways. The number of files in a memory file system can be limited from outside the sandbox
// (Linux's mount option nr_inodes): the sentry supports that, but runsc does not pass the option on. O_NOFOLLOW is honoured for
// folders; see openat.go. clone3 makes no namespaces; see clone.go. Belljar's system call policy is part of the kernel; see
// policy.go. The memory of programs is limited; see memory.go, pieces.go and populate.go. And the loopback has another address; see
// loopback.go.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	_ "unsafe" // for go:linkname

	_ "gvisor.dev/gvisor/runsc/boot" // owner of the linked variable
	"gvisor.dev/gvisor/runsc/cli/maincli"
)

// tmpfsAllowedData are the options of a memory file system that runsc passes on to the sentry.
//
//go:linkname tmpfsAllowedData gvisor.dev/gvisor/runsc/boot.tmpfsAllowedData
var tmpfsAllowedData []string

func main() {
	if err := errors.Join(allow(&tmpfsAllowedData, "nr_inodes"), fixOpen(), fenceClone(), limitMemory(os.Args), enforce(), extendLoopback()); err != nil {
		fmt.Fprintln(os.Stderr, "belljar-runsc:", err)
		os.Exit(128)
	}
	maincli.Main()
}

// allow appends an option to the list. If the list lacks size, this is not the version of gVisor that this program was written for.
func allow(options *[]string, name string) error {
	if !slices.Contains(*options, "size") {
		return fmt.Errorf("gVisor's list of tmpfs options has moved: %q", *options)
	}
	if !slices.Contains(*options, name) {
		*options = append(*options, name)
	}
	return nil
}
