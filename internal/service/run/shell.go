package run

import (
	"context"
	"path"
	"strings"
	"unicode"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/kernel"
	"github.com/belljar/belljar/internal/service/session"
)

// A shell command is a normal run, on record and with a log. It waits in the queue of its session's shell, and the agent passes it to the shell.

// called returns the name of the plan's command in messages and the log.
func (p *plan) called() string {
	switch {
	case p.request.Shell != nil:
		return "shell"
	case p.request.Context != "":
		return "context " + p.request.Context
	case len(p.argv) == 0:
		return "" // the end of a run must not depend on its name
	}
	return p.argv[0]
}

// logged returns the name of the plan's command for the log: if a whole line was sent as the program, only the beginning of its name.
func (p *plan) logged() string {
	if p.request.Shell != nil || p.request.Context != "" {
		return p.called()
	}
	words := strings.FieldsFunc(p.called(), func(c rune) bool { return unicode.IsSpace(c) || c == '=' }) // VARIABLE=value comes first in a line
	if len(words) == 0 {
		return ""
	}
	const most = 64
	name := path.Base(words[0])
	return strings.ToValidUTF8(name[:min(len(name), most)], "")
}

// forShell directs a command to the session's shell, if the request is for that.
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
	return e
}

// renewContext records that the run's context began anew with it: the code of the interpreter before must not be replayed.
func renewContext(c *execution) {
	name, exit, began := c.plan.request.Context, c.end.Exit, c.run.Snapshot().StartedAt
	if name != "" && exit != nil && exit.Shell != nil && began != nil && c.plan.session.Contexts.Renew(name, *began, exit.Shell) {
		session.RecordContexts(c.plan.session)
	}
}

// replay executes the earlier code of the run's context again, if the request sets that and the context has lost its interpreter. It fails
// for a context that was deleted before its code began.
func (c *execution) replay(ctx context.Context) error {
	p := c.plan
	if err := session.BeginContext(p.session, p.request.Context); err != nil || !p.request.Replay {
		return err
	}
	n, err := p.session.Contexts.Replay(ctx, c.box, p.command(c.id, c.box), p.request.Context, func(yield func(belljar.Run, error) bool) {
		q := belljar.RunQuery{UserID: c.run.owner, SessionID: p.request.SessionID, Sort: "created_at:asc", Limit: belljar.MaxPage}
		for more := true; more; q.Offset += q.Limit {
			page, total, err := c.runner.store.List(ctx, q)
			if err != nil {
				yield(belljar.Run{}, err)
				return
			}
			for _, row := range page {
				if !yield(row.Run, nil) {
					return
				}
			}
			more = q.Offset+q.Limit < total
		}
	})
	if n > 0 || err != nil {
		session.RecordContexts(p.session) // they include whether the replay failed
	}
	if n > 0 && err == nil {
		c.run.mu.Lock()
		of := *c.run.state.Context
		of.Replayed = n
		c.run.state.Context = &of
		c.run.mu.Unlock()
	}
	return err
}
