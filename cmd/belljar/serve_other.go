//go:build !linux

package main

import (
	goruntime "runtime"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/runtime"
)

// openRuntimes says that there is nothing to run with here.
func openRuntimes(*console, *config.Config, *dataDir, *daemon) ([]runtime.Runtime, error) {
	return nil, &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "no runtime works on " + goruntime.GOOS + " yet",
		Hint: "run belljar serve on Linux, for example in a virtual machine",
	}
}
