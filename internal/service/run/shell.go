package run

import (
	"maps"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/kernel"
)

// A shell command is a run like any other, on record and with a log. It waits in the queue of its session's shell, and the agent passes it
// to the shell.

// called is how messages name the plan's command.
func (p *plan) called() string {
	switch {
	case p.request.Shell != nil:
		return "shell"
	case p.request.Context != "":
		return "context " + p.request.Context
	}
	return p.argv[0]
}

// forShell directs a command to the session's shell, if the request does.
func (p *plan) forShell(e wire.Exec) wire.Exec {
	if p.request.Context != "" {
		return p.session.Contexts.Direct(e, p.request.Context, p.request.Code)
	}
	if p.request.Shell == nil {
		return e
	}
	e.Argv = nil
	e.Shell = &wire.ShellRun{Cmd: []byte(p.request.Shell.Cmd), Separate: p.request.Shell.Separate}
	e.Env = kernel.Unattended(e.Env)
	e.Rlimits = maps.Clone(e.Rlimits)
	delete(e.Rlimits, "cpu") // the shell outlives many commands; the clock ends each
	return e
}
