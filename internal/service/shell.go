package service

import (
	"maps"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

// A shell command is a run like any other, on record and with a log; it waits in its session's line for the commands
// before it, and the agent gives it to the session's shell.

// called is how messages name the plan's command.
func (p *plan) called() string {
	if p.request.Shell != nil {
		return "shell"
	}
	return p.argv[0]
}

// forShell makes an execution one for the session's shell, if that is what the plan wants.
func (p *plan) forShell(e wire.Exec) wire.Exec {
	if p.request.Shell == nil {
		return e
	}
	e.Argv = nil
	e.Shell = &wire.ShellRun{Cmd: []byte(p.request.Shell.Cmd), Separate: p.request.Shell.Separate}
	e.Env = quietly(e.Env)
	e.Rlimits = maps.Clone(e.Rlimits)
	delete(e.Rlimits, "cpu") // the shell outlives many commands; the clock ends each
	return e
}

// quietly adds to an environment what keeps programs from waiting for somebody at the shell's terminal: nobody is there.
func quietly(env []string) []string {
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

// shellState is how a command left its shell; nil if it had none.
func shellState(exit *wire.Exit) *belljar.ShellState {
	if exit.Shell == nil {
		return nil
	}
	state := &belljar.ShellState{Cwd: exit.Cwd, State: belljar.ShellKept, Program: exit.Shell.Program}
	if exit.Shell.Replaced {
		state.State = belljar.ShellReplaced
	}
	return state
}

// remember notes where a session's shell is.
func (x *session) remember(state *belljar.ShellState) {
	if x == nil || state == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state.Cwd = state.Cwd
}
