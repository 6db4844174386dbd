//go:build linux

package native

import "github.com/belljar/belljar/internal/linux/forkexec"

// Edit lets f change the program of every birth to come; it returns descriptors that its changes need.
func (r *Runtime) Edit(f func(*forkexec.Program) []int) { r.edit = f }
