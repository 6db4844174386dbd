// Package daemon is what a server, and a command without one, is made of: store, runtimes, service and doors, built in plain
// sight from the bottom up and closed in reverse.
package daemon

import (
	"fmt"
	"io/fs"
	goruntime "runtime"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/notice"
)

// Options is what a host is made of.
type Options struct {
	local.World
	Version string
	Commit  string
	Agent   func(arch string) (fs.File, error) // opens the program that runs inside every sandbox, by Go's name of a processor
}

// Host is this machine: it runs programs, keeps images and serves.
type Host struct {
	Options
	notice.Writer // of what there is to say to the person who started this process
}

var _ local.Machine = (*Host)(nil)

// New returns this machine. Nothing is opened before it is asked for.
func New(o Options) *Host { return &Host{o, notice.Writer{Stderr: o.Stderr}} }

// Agent opens the agent for this machine's processor.
func (h *Host) Agent() (fs.File, error) { return h.Options.Agent(goruntime.GOARCH) }

// Keep turns this process into the agent's small program, which looks after one sandbox whose agent has a single byte stream.
func (h *Host) Keep(config string) error {
	agent, err := h.Agent()
	if err != nil {
		return err
	}
	defer agent.Close()
	return becomeKeep(agent, config)
}

// mistake is a failure that is the caller's: a message and what to do about it.
func mistake(hint, format string, args ...any) error {
	return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Hint: hint}
}
