//go:build !linux

package debian

import "github.com/belljar/belljar"

// pick finds no tool: this system has none.
func pick(string) (tool, error) {
	return nil, &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "images are built on Linux only",
		Hint: "build it on a Linux machine with --output FILE, and belljar image import FILE here",
	}
}

// sweep does nothing: no image is built on this system.
func sweep(string) {}
