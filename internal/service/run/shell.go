package run

import (
	"maps"
	"slices"
	"strings"

	"github.com/belljar/belljar/internal/agent/wire"
)

// A shell command is a run like any other, on record and with a log. It waits in the queue of its session's shell, and the agent passes it
// to the shell.

// called is how messages name the plan's command.
func (p *plan) called() string {
	if p.request.Shell != nil {
		return "shell"
	}
	return p.argv[0]
}

// forShell directs a command to the session's shell, if the request does.
func (p *plan) forShell(e wire.Exec) wire.Exec {
	if p.request.Shell == nil {
		return e
	}
	e.Argv = nil
	e.Shell = &wire.ShellRun{Cmd: []byte(p.request.Shell.Cmd), Separate: p.request.Shell.Separate}
	e.Env = unattended(e.Env)
	e.Rlimits = maps.Clone(e.Rlimits)
	delete(e.Rlimits, "cpu") // the shell outlives many commands; the clock ends each
	return e
}

// unattended adds to an environment what keeps programs from waiting for a user at the shell's terminal.
func unattended(env []string) []string {
	has := func(name string) bool {
		return slices.ContainsFunc(env, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
	}
	for _, pair := range [][2]string{{"PAGER", "cat"}, {"GIT_PAGER", "cat"}, {"GIT_TERMINAL_PROMPT", "0"}} {
		if !has(pair[0]) {
			env = append(env, pair[0]+"="+pair[1])
		}
	}
	return env
}
