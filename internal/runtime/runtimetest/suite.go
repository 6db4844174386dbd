// Package runtimetest is the conformance suite that every runtime passes. It sees a runtime through the contract and
// its sandboxes through their agents, and uses nothing in a sandbox but a POSIX shell and its usual companions.
package runtimetest

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Options describe the runtime under test.
type Options struct {
	// New returns a runtime. It is called once for each part of the suite and closes what it made in t's cleanup.
	New func(t *testing.T) runtime.Runtime
	// Restart returns a runtime over the same state as r, which is no longer used: a daemon after its restart. nil
	// if the test cannot do that; what needs it is then skipped by name.
	Restart func(t *testing.T, r runtime.Runtime) runtime.Runtime
	// RestartKills means that Restart ends the old daemon as a crash would: its connections break, and with it end the
	// sandboxes that it created for its own lifetime. False where that takes another process: the runtime's own tests
	// then do it.
	RestartKills bool
	// UID and GID are the user of commands and files.
	UID, GID int
	// AgentUser means that they run as the user of each sandbox's agent.
	AgentUser bool
	// Isolated is false for a runtime without isolation, which is then not tested.
	Isolated bool
	// Root is the image; the zero value is the host's own programs.
	Root runtime.Root
	// CopiesImages means that sandboxes have a copy of an unpacked image, which is then not in use by them.
	CopiesImages bool
	// Require names the protections that every sandbox of the suite asks for.
	Require []string
	// Net is the path of the program test/net, which uses the network inside a sandbox.
	Net string
	// Short leaves out the parts about streams and files, which the agent alone decides: for another way to a runtime that passes them.
	Short bool
	// Few leaves out variants of an image: for a slow runtime, and another that builds the same roots runs all.
	Few bool
	// Parallel runs the parts of the suite at once: for a runtime that is slow, and mostly waits.
	Parallel bool

	common *common
}

// maybeParallel makes a test one of those that run at once.
func (o Options) maybeParallel(t *testing.T) {
	if o.Parallel {
		t.Parallel()
	}
}

// Run runs the suite.
func Run(t *testing.T, o Options) {
	if o.Root.Ref == "" {
		o.Root.Ref = runtime.HostRef
	}
	o.common = &common{t: t}
	for _, part := range []struct {
		name  string
		test  func(*testing.T, Options)
		agent bool // that it decides alone
		turns bool // it uses the common sandbox
	}{
		{"contract", testContract, false, false},
		{"layers", testLayers, false, false},
		{"overlay", testOverlay, false, false},
		{"exec", testExec, false, true},
		{"output", testOutput, true, true},
		{"stdin", testStdin, true, true},
		{"terminal", testTerminal, true, true},
		{"shell", testShell, true, false},
		{"shell restart", testShellRestart, false, false},
		{"kernel", testKernel, false, false},
		{"ending", testEnding, false, true},
		{"survivors", testSurvivors, false, true},
		{"attach", testAttach, false, true},
		{"lifetime", testLifetime, false, false},
		{"lease", testLease, false, false},
		{"files", testFiles, true, true},
		{"paths", testPaths, true, true},
		{"tar", testTar, true, true},
		{"secrets", testSecrets, true, true},
		{"save", testSave, false, false},
		{"merge", testMerge, true, true},
		{"usage", testUsage, false, true},
		{"walls", testWalls, false, false},
		{"relay", testRelay, false, false},
		{"claim", testClaim, false, false},
		{"memory", testMemory, false, false},
		{"image", testImage, false, false},
	} {
		if o.Short && part.agent {
			continue
		}
		t.Run(part.name, func(t *testing.T) {
			if !part.turns {
				o.maybeParallel(t)
			}
			part.test(t, o)
		})
	}
}

// spec is a sandbox with the default limits.
func (o Options) spec() runtime.Spec {
	limits := belljar.DefaultLimits()
	return runtime.Spec{
		ID:     belljar.NewID(),
		Root:   o.Root,
		Limits: limits,
		Workspace: runtime.Workspace{
			Bytes: int64(limits.WorkspaceMB) << 20, Inodes: int64(limits.Inodes), Exec: true, Medium: runtime.MediumMemory,
		},
		Network:  runtime.Network{Mode: runtime.NetworkNone},
		Lifetime: runtime.LifetimeCreator,
		Require:  o.Require,
	}
}
