// Package daemon assembles a server, or the engine of a command without one: store, runtimes, service and doors. It builds them
// from the bottom up and closes them in reverse.
package daemon

import (
	"fmt"
	"io/fs"
	goruntime "runtime"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/notice"
)

// Options are the parts of a host.
type Options struct {
	local.Environment
	Version string
	Commit  string
	Agent   func(arch string) (fs.File, error) // opens the program that runs inside every sandbox; arch is a GOARCH value
}

// Host is this machine: it runs programs, stores images and serves.
type Host struct {
	Options
	notice.Writer // notices to the user who started this process
}

var _ local.Machine = (*Host)(nil)

// New returns this machine. It opens everything on first use.
func New(o Options) *Host { return &Host{o, notice.Writer{Stderr: o.Stderr}} }

// Agent opens the agent for this machine's processor.
func (h *Host) Agent() (fs.File, error) { return h.Options.Agent(goruntime.GOARCH) }

// Keep replaces this process by the agent's small program, which serves one sandbox whose agent has a single byte stream.
func (h *Host) Keep(config string) error {
	agent, err := h.Agent()
	if err != nil {
		return err
	}
	defer agent.Close()
	return becomeKeep(agent, config)
}

// mistake returns an error of the caller: a hint on what to do, and a message.
func mistake(hint, format string, args ...any) error {
	return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Hint: hint}
}
