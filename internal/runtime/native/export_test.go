//go:build linux

package native

import "github.com/belljar/belljar/internal/linux/forkexec"

// Edit lets f change the program of every birth to come; it returns descriptors that its changes need.
func (r *Runtime) Edit(f func(*forkexec.Program) []int) { r.edit = f }

// Reached lets f hear how far every claim to come is.
func (r *Runtime) Reached(f func(point string)) { r.reached = f }

// Points of a claim.
const (
	ClaimLimited = claimLimited
	ClaimLinked  = claimLinked
	ClaimMoved   = claimMoved
	ClaimNamed   = claimNamed
)
