//go:build !linux

package debian

import "github.com/belljar/belljar"

// pick finds no tool here.
func pick() (tool, error) {
	return nil, &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "images are built on Linux only",
		Hint: "build it on a Linux machine with --output FILE, and belljar image import FILE here",
	}
}

// sweep has nothing to remove: no image is made here.
func sweep(string) {}
