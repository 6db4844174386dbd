// Package runtimetest is the conformance suite that every runtime passes. It sees a runtime through the contract and its sandboxes
// through their agents, and uses only a POSIX shell and the usual tools in a sandbox.
package runtimetest

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Options describe the runtime under test.
type Options struct {
	// New returns a runtime. The suite calls it once for each part. New must close the runtime in t's cleanup.
	New func(t *testing.T) runtime.Runtime
	// Restart returns a runtime with the state of r, which is no longer used: a daemon after its restart. If it is nil, tests that need
	// it are skipped.
	Restart func(t *testing.T, r runtime.Runtime) runtime.Runtime
	// RestartKills means that Restart ends the old daemon like a crash: its connections break, and the sandboxes that it created for
	// its own lifetime end. False if that takes another process: then the runtime's own tests do it.
	RestartKills bool
	// UID and GID are the user of commands and files.
	UID, GID int
	// AgentUser means that commands run as the user of each sandbox's agent.
	AgentUser bool
	// Isolated is false for a runtime without isolation, for which tests of isolation are skipped.
	Isolated bool
	// Root is the image; the zero value is the host's own programs.
	Root runtime.Root
	// CopiesImages means that sandboxes have a copy of an unpacked image, and do not hold the image.
	CopiesImages bool
	// Require lists the protections that every sandbox of the suite requires.
	Require []string
	// Net is the path of the program test/net, which uses the network inside a sandbox.
	Net string
	// Short leaves out the tests of streams and files, which depend on the agent alone. Use it for a second configuration of a runtime
	// that passes them.
	Short bool
	// Few leaves out variants of an image. Use it for a slow runtime, if another one builds the same roots and runs all.
	Few bool
	// Parallel runs the parts of the suite in parallel: for a slow runtime that mostly waits.
	Parallel bool

	common *common
}

// maybeParallel marks a test as parallel if Parallel is set.
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
		agent bool // depends on the agent alone
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
		{"protections", testProtections, false, false},
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

// spec returns a spec with the default limits.
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
