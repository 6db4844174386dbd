package mcp

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

// Terms are what an operator allows a client. A model can ask for less.
type Terms struct {
	belljar.Toolset
	// Tools are the names of those that are offered; none is all of the mode's, and sandbox.run.
	Tools []string
	// Capture are globs of files that one-shot runs leave as artifacts, besides [Captured].
	Capture []string
	// Wait is how long a call waits for its run before it answers that it goes on; 0 is 45 s. Most clients give a call 60 s.
	Wait time.Duration
	// MaxOutput is how much of each stream a result holds, in bytes, half of it from the beginning and half from the end; 0 is
	// 24 KiB. More of it can be read.
	MaxOutput int
}

// The defaults of [Terms], and their bounds.
const (
	DefaultWait      = 45 * time.Second
	MaxWait          = time.Hour
	DefaultMaxOutput = 24 << 10
	LeastMaxOutput   = 256
	MaxMaxOutput     = 1 << 20
)

// Captured are the globs of files that one-shot runs always leave as artifacts: pictures, and what is in folders made for
// results.
func Captured() []string {
	return []string{
		"**/*.png", "**/*.jpg", "**/*.jpeg", "**/*.gif", "**/*.svg", "**/*.pdf",
		"artifacts/**", "output/**", "outputs/**",
	}
}

// runTool is the name of the sandbox API's tool.
const runTool = "sandbox.run"

// complete checks the terms and fills in what they leave out.
func (t *Terms) complete() error {
	switch t.InMode() {
	case belljar.ToolsCompute, belljar.ToolsCode:
	default:
		return refuse("mode", "mode %.40q is not compute or code", t.Mode)
	}
	if t.Language != "" {
		if _, known := belljar.LanguageOf(t.Language); !known {
			return refuse("language", "language %.40q is not known", t.Language)
		}
	}
	if t.Workflow != "" && t.Agent != "" {
		return refuse("workflow", "workflow and agent exclude each other")
	}
	if t.Session == belljar.IsolatedKey && t.Workflow != "" {
		t.Workflow = "" // it is nobody else's
	}
	if err := t.scope("").Validate(); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		n    float64
	}{
		{"timeout", t.TimeoutSec}, {"idle timeout", t.IdleTimeoutSec}, {"cpu", t.Resources.CPU}, {"memory", float64(t.Resources.MemoryMB)},
		{"workspace", float64(t.Resources.WorkspaceMB)}, {"wait", t.Wait.Seconds()}, {"max output", float64(t.MaxOutput)},
	} {
		if f.n < 0 || math.IsNaN(f.n) || math.IsInf(f.n, 0) {
			return refuse(strings.ReplaceAll(f.name, " ", "_"), "%s must not be less than 0", f.name)
		}
	}
	if t.Wait == 0 {
		t.Wait = DefaultWait
	}
	if t.Wait > MaxWait {
		return refuse("wait", "wait is at most %v", MaxWait)
	}
	if t.MaxOutput == 0 {
		t.MaxOutput = DefaultMaxOutput
	}
	if t.MaxOutput < LeastMaxOutput || t.MaxOutput > MaxMaxOutput {
		return refuse("max_output", "max output is %d to %d bytes", LeastMaxOutput, MaxMaxOutput)
	}
	return t.checkTools()
}

func (t *Terms) checkTools() error {
	all := t.offered()
	for _, name := range t.Tools {
		if !slices.Contains(all, name) {
			e := refuse("tools", "mode %s has no tool %.40q", t.InMode(), name)
			e.Hint = "it has " + strings.Join(all, ", ")
			return e
		}
	}
	return nil
}

// offered are the tools that the mode has.
func (t *Terms) offered() []string { return append(t.InMode().Tools(), runTool) }

// has reports whether a tool is offered.
func (t *Terms) has(name string) bool {
	if len(t.Tools) > 0 {
		return slices.Contains(t.Tools, name)
	}
	return slices.Contains(t.offered(), name)
}

// scope is that of the session with a name, "" for the usual one. An isolated one has the agent's as its prefix, so that
// it can be closed by that.
func (t *Terms) scope(key string) belljar.Scope {
	s := t.Toolset.Scope()
	if t.Session == belljar.IsolatedKey && t.Agent != "" {
		s = belljar.Scope{Namespace: "agent", ID: t.Agent, Key: belljar.IsolatedKey}
	}
	if key != "" {
		s.Key = key
	}
	return s
}

// own reports whether the visit's sessions end with it.
func (t *Terms) own() bool { return t.Workflow == "" }

// timeout is the time limit of a command that asks for so many seconds, 0 if it does not say.
func (t *Terms) timeout(field string, asked float64) (float64, error) {
	if asked <= 0 {
		return t.TimeoutSec, nil
	}
	if t.TimeoutSec > 0 && asked > t.TimeoutSec {
		return 0, bound(field, asked, t.TimeoutSec, "a command here may take %v seconds at most, %v were asked for", t.TimeoutSec, asked)
	}
	return asked, nil
}

// fixed is what a request gets that asks for one of two things of which the operator may have fixed one.
func fixed(field, asked, operators string) (string, error) {
	if asked != "" && operators != "" && asked != operators {
		return "", bound(field, asked, operators, "%s here is %s, and nothing else", field, operators)
	}
	if asked == "" {
		asked = operators
	}
	return asked, nil
}

// bound refuses what goes beyond the terms.
func bound(field string, asked, most any, format string, args ...any) error {
	return &belljar.Error{
		Code: belljar.CodePolicyDenied, Message: fmt.Sprintf(format, args...),
		Details: map[string]any{"field": field, "provided": asked, "maximum": most, "rule": "operator"},
		Hint:    "ask for less, or leave " + field + " out",
	}
}

func refuse(field, format string, args ...any) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Details: map[string]any{"field": field},
	}
}
