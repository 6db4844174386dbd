//go:build linux

package gvisor

import (
	"fmt"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/rack"
)

// Name is the runtime's name in requests.
const Name = "gvisor"

// The platforms: how the sentry intercepts a program's system calls.
const (
	PlatformSystrap = "systrap" // by a signal; the default
	PlatformPtrace  = "ptrace"  // by ptrace(2): about twenty times slower, but works where systrap does not
	PlatformKVM     = "kvm"     // by /dev/kvm, which every user must be able to open
)

// Options configure a runtime. Agent is the first process in every sandbox, and also the keep outside.
type Options struct {
	rack.Options
	// Path is belljar-runsc; default is the one next to this program, else the first in PATH. Without it New succeeds,
	// and Probe reports that it is missing.
	Path string
	// Platform is how the sentry intercepts system calls; default [PlatformSystrap].
	Platform string
}

// Runtime builds sandboxes. It implements [runtime.Runtime].
type Runtime struct {
	*rack.Rack
	platform string
	runsc    finder
	file     func() (agentFile, error) // made when the first sandbox needs it
}

var (
	_ runtime.Runtime  = (*Runtime)(nil)
	_ runtime.Tester   = (*Runtime)(nil)
	_ runtime.Claimer  = (*Runtime)(nil)
	_ runtime.Restorer = (*Runtime)(nil)
)

// New prepares a runtime. It touches nothing outside RunDir. The caller must close the runtime.
func New(o Options) (*Runtime, error) {
	switch o.Platform {
	case "":
		o.Platform = PlatformSystrap
	case PlatformSystrap, PlatformPtrace, PlatformKVM:
	default:
		return nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: fmt.Sprintf("gvisor has no platform %q", o.Platform),
			Hint: "systrap, ptrace or kvm",
		}
	}
	r := &Runtime{platform: o.Platform, runsc: finder{given: o.Path}}
	var err error
	r.Rack, err = rack.Open(rack.Kind{Name: Name, Adopt: r.adopt, Tidy: func(dir string) { removeAgentFiles(dir, "") }}, o.Options)
	if err != nil {
		return nil, err
	}
	r.file = sync.OnceValues(func() (a agentFile, err error) {
		agent, err := r.Jars.Agent.File()
		if err == nil {
			a, err = newAgentFile(r.Jars.Dir(), agent)
		}
		if err != nil {
			err = runtime.FailedStep(jar.StepAgent, err, "")
		}
		return a, err
	})
	return r, nil
}

// Close releases the resources of New, and removes folders that are now empty. Living sandboxes are not touched.
func (r *Runtime) Close() error { return r.Jars.Close() }
