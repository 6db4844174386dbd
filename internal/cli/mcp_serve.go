package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client/agentfile"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/local"
)

// serve speaks with the host until it goes away, and takes down what it had.
func (m *mcpCommand) serve(ctx context.Context, c *console, set belljar.Toolset) (err error) {
	c.wants = local.HostImage // models may name images
	e, err := c.open(set.Runtime, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	found, err := e.Node().Runtimes(ctx)
	if err != nil {
		return err
	}
	in := c.stdin
	if in == nil {
		in = strings.NewReader("")
	}
	return c.machine.ServeModels(ctx, local.Models{
		Service: e.Service, Runtimes: namesOf(found), Image: usualImage(found, set.Runtime),
		Toolset: set, Tools: m.tools(set), Capture: m.Capture, Wait: time.Duration(value(m.Wait) * float64(time.Second)), MaxOutput: int(whole(m.MaxOutput)),
		In: in, Out: c.stdout, Logger: slog.New(slog.NewTextHandler(c.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}

// tools are those that are to be offered; none is all. An agent's file has its mode's, and no others.
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

// namesOf are the runtimes that can be had.
func namesOf(found belljar.Discovery) []string {
	var names []string
	for _, r := range found.Runtimes {
		if r.Available {
			names = append(names, r.Name)
		}
	}
	return names
}

// usualImage is what one-shot runs are made of that name no image, in a runtime ("" is the default one).
func usualImage(found belljar.Discovery, name string) string {
	for _, r := range found.Runtimes {
		if (r.Name == name || name == "" && r.Default) && len(r.DefaultImages) > 0 {
			return r.DefaultImages[0]
		}
	}
	return local.HostImage
}

// agentFile is the terms of the file that the command line names, if it does.
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
