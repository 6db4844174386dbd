package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/client/agentfile"
)

// execution is one run of a workflow.
type execution struct {
	flow    flow
	id      string // of the run
	host    *host
	agents  string // folder of the agents' files
	session string // shared by all agents
	outputs map[string]map[string]any
	output  []string // output of the agents, in order
}

// agent reads an agent's file and its sandbox settings for this run.
func (e *execution) agent(name string) (agentfile.File, belljar.Toolset, error) {
	file, err := os.Open(e.agentPath(name))
	if err != nil {
		return agentfile.File{}, belljar.Toolset{}, err
	}
	defer file.Close()
	parsed, err := agentfile.Parse(file)
	if err != nil {
		return parsed, belljar.Toolset{}, fmt.Errorf("%s: %w", name, err)
	}
	set, err := parsed.Sandbox.Toolset(agentfile.ExecutionContext{WorkflowRunID: e.id})
	return parsed, set, err
}

func (e *execution) agentPath(name string) string { return filepath.Join(e.agents, name+".md") }

// begin opens the sandbox with the first agent's settings, and copies the project into it.
func (e *execution) begin(ctx context.Context, project string) error {
	_, set, err := e.agent(e.flow.Steps[0].Agent)
	if err != nil {
		return err
	}
	session, _, err := client.OpenToolset(ctx, e.host.service, set)
	if err != nil {
		return err
	}
	e.session = session.ID
	return e.each(project, func(name string) error {
		content, err := os.Open(filepath.Join(project, name))
		if err != nil {
			return err
		}
		defer content.Close()
		_, err = e.host.service.Files().Write(ctx, session.ID, belljar.FileWrite{Path: name, Content: content, Overwrite: true})
		return err
	})
}

// each calls do for every file of the project.
func (e *execution) each(project string, do func(name string) error) error {
	list, err := os.ReadDir(project)
	if err != nil {
		return err
	}
	for _, entry := range list {
		if entry.Type().IsRegular() {
			if err := do(entry.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// run runs the steps until an end step.
func (e *execution) run(ctx context.Context) error {
	at := 0
	for range e.flow.MaxSteps {
		s := e.flow.Steps[at]
		switch s.Type {
		case "end":
			fmt.Println(s.ID)
			return nil
		case "agent":
			fmt.Printf("%s: %s\n", s.ID, s.Agent)
			text, err := e.step(ctx, s)
			if err != nil {
				return fmt.Errorf("step %s: %w", s.ID, err)
			}
			fmt.Printf("  %s\n", text)
			e.output = append(e.output, s.ID+": "+text)
			e.outputs[s.ID] = output(text)
		}
		next, value, err := e.flow.after(at, e.outputs)
		if err != nil {
			return err
		}
		if s.Type == "switch" {
			fmt.Printf("%s: %s is %s, so %s\n", s.ID, s.Expression, value, e.flow.Steps[next].ID)
		}
		at = next
	}
	return fmt.Errorf("it is not done after %d steps", e.flow.MaxSteps)
}

// output returns an agent's last message, by field if it is JSON.
func output(text string) map[string]any {
	fields := map[string]any{}
	if json.Unmarshal([]byte(text), &fields) != nil || fields == nil {
		return map[string]any{"text": text}
	}
	return fields
}

// step runs an agent with the tools of its file.
func (e *execution) step(ctx context.Context, s step) (string, error) {
	file, _, err := e.agent(s.Agent)
	if err != nil {
		return "", err
	}
	tools, err := e.host.tools(ctx, e.agentPath(s.Agent), e.id, file.Sandbox.Tools())
	if err != nil {
		return "", err
	}
	defer tools.close()
	task := fmt.Sprintf("This is step %s of the workflow %q. The project is in /workspace.", s.ID, e.flow.Name)
	if len(e.output) > 0 {
		task += " The previous steps reported:\n" + strings.Join(e.output, "\n")
	}
	return converse(ctx, file.Body, task, tools)
}

// fetch copies the project's files back.
func (e *execution) fetch(ctx context.Context, project, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	return e.each(project, func(name string) error {
		_, content, err := e.host.service.Files().Read(ctx, e.session, name, 0, 0)
		if err != nil {
			return err
		}
		defer content.Close()
		file, err := os.Create(filepath.Join(out, name))
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return errors.Join(err, file.Close())
	})
}

// end closes every sandbox of this run.
func (e *execution) end(ctx context.Context) error {
	prefix := belljar.Scope{Namespace: "workflow", ID: e.id}.Prefix()
	page, err := e.host.service.Sessions().List(ctx, belljar.SessionQuery{KeyPrefix: prefix})
	if err != nil {
		return err
	}
	closed, err := e.host.service.Sessions().CloseAll(ctx, belljar.CloseRequest{KeyPrefix: prefix})
	if err != nil {
		return err
	}
	for _, s := range page.Items {
		fmt.Printf("closed %s, after %d commands\n", s.ScopeKey, s.Runs)
	}
	if len(closed) != len(page.Items) {
		return fmt.Errorf("%d of %d sandboxes were closed", len(closed), len(page.Items))
	}
	return nil
}
