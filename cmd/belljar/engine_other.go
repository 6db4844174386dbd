//go:build !linux

package main

import (
	"runtime"

	"github.com/belljar/belljar"
)

// openEngine says that there is nothing to run with here: every runtime that works without a server needs Linux.
func openEngine(*console, string, string) (*engine, error) {
	return nil, &belljar.Error{
		Code:    belljar.CodeRuntimeUnavailable,
		Message: "no runtime works on " + runtime.GOOS + " by itself",
		Hint:    "run belljar on Linux, for example in a virtual machine",
	}
}
