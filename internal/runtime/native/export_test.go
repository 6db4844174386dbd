//go:build linux

package native

import (
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/roster"
)

// Edit lets f change the program of every later birth. f returns the descriptors that its changes
// need.
func (r *Runtime) Edit(f func(*forkexec.Program) []int) { r.edit = f }

// Unrelayed makes later sandboxes without the agent's relay.
func (r *Runtime) Unrelayed(yes bool) { r.unrelayed = yes }

// OwnNodes sets the folder for device nodes.
func (r *Runtime) OwnNodes(dir string) { r.ownNodes = dir }

// WithoutLandlock makes the runtime that of a kernel without Landlock.
func (r *Runtime) WithoutLandlock() { r.abi = 0 }

// Reached calls f at each point of every later claim.
func (r *Runtime) Reached(f func(point string)) { r.Jars.Reached = f }

// Points of a claim.
const (
	ClaimLimited = jar.PointLimited
	ClaimLinked  = roster.PointLinked
	ClaimMoved   = roster.PointMoved
	ClaimNamed   = jar.PointNamed
)
