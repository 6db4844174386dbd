package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client/agentfile"
	"github.com/belljar/belljar/internal/cli/field"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/local"
)

// serve speaks MCP until the client disconnects, and then closes the service.
func (m *mcpCommand) serve(ctx context.Context, c *console, set belljar.Toolset) (err error) {
	c.image = local.HostImage // models may request other images
	c.source = "mcp"
	e, err := c.open(set.Runtime, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	found, err := e.Node().Runtimes(ctx)
	if err != nil {
		return err
	}
	me, err := e.Node().Me(ctx)
	if err == nil { // or each call of the model would be refused
		_, err = me.Limits.Resolve(set.Resources, 0, set.TimeoutSec, me.MaxLimits)
	}
	if most := me.MaxTTLSec; err == nil && most > 0 && set.IdleTimeoutSec > most && set.InMode() == belljar.ToolsCode {
		err = mistake.New("", "--idle-timeout is limited to %.0f seconds here, got %.0f", most, set.IdleTimeoutSec)
	}
	if err != nil {
		return field.InFlags(err)
	}
	defer c.readyBehind(ctx, e.Service, set)()
	in := c.stdin
	if in == nil {
		in = strings.NewReader("")
	}
	return field.InFlags(c.machine.ServeModels(ctx, local.Models{
		Service: e.Service, Runtimes: namesOf(found), Image: defaultImage(found, set.Runtime),
		Toolset: set, Tools: m.tools(set), Capture: m.Capture, Wait: time.Duration(value(m.Wait) * float64(time.Second)), MaxOutput: int(whole(m.MaxOutput)),
		In: in, Out: c.stdout, Logger: slog.New(slog.NewTextHandler(c.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}))
}

// readyBehind runs readyImage in the background, until wait: pulling a large image takes longer than an MCP host waits for its first answer. A
// call that needs the image in the meantime joins the pull. If the call times out, the pull continues.
func (c *console) readyBehind(ctx context.Context, s belljar.Service, set belljar.Toolset) (wait func()) {
	ctx, stop := context.WithCancel(ctx)
	var pulling sync.WaitGroup
	pulling.Go(func() {
		if err := c.readyImage(ctx, s, set.Image, set.Runtime); err != nil && ctx.Err() == nil {
			c.fail(err)
		}
	})
	return func() {
		stop()
		pulling.Wait()
	}
}

// tools returns the tools to offer; nil means all. An agent file's mode defines its tools.
func (m *mcpCommand) tools(set belljar.Toolset) []string {
	var names []string
	for name := range strings.SplitSeq(m.Tools, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 && m.AgentFile != "" {
		return set.InMode().Tools()
	}
	return names
}

// namesOf returns the names of the available runtimes.
func namesOf(found belljar.Discovery) []string {
	var names []string
	for _, r := range found.Runtimes {
		if r.Available {
			names = append(names, r.Name)
		}
	}
	return names
}

// defaultImage returns the image of one-shot runs that name none, for a runtime ("" for the default).
func defaultImage(found belljar.Discovery, name string) string {
	for _, r := range found.Runtimes {
		if (r.Name == name || name == "" && r.Default) && len(r.DefaultImages) > 0 {
			return r.DefaultImages[0]
		}
	}
	return local.HostImage
}

// agentFile returns the toolset of the agent file, if one is given.
func (m *mcpCommand) agentFile() (belljar.Toolset, error) {
	if m.AgentFile == "" {
		return belljar.Toolset{}, nil
	}
	f, err := os.Open(m.AgentFile)
	if err != nil {
		return belljar.Toolset{}, mistake.New("", "--agent-file %s: %s", m.AgentFile, mistake.Reason(err))
	}
	defer f.Close()
	file, err := agentfile.Parse(f)
	if err != nil {
		return belljar.Toolset{}, err
	}
	if file.Sandbox == nil {
		return belljar.Toolset{}, mistake.New("sandbox: python is one", "--agent-file %s: has no sandbox: block", m.AgentFile)
	}
	return file.Sandbox.Toolset(agentfile.ExecutionContext{WorkflowRunID: m.Workflow})
}
