package mcp

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/nearest"
)

// Terms are what an operator allows a client. A model can ask for less.
type Terms struct {
	belljar.Toolset
	// ServerNetwork reports that sandboxes whose terms have no network get the server's.
	ServerNetwork bool
	// Tools are the names of the tools on offer; none means all tools of the mode, and sandbox.run.
	Tools []string
	// Capture are globs of artifacts of one-shot runs, in addition to [DefaultCapture].
	Capture []string
	// Wait limits how long a call waits for its run before it answers that the run continues; 0 is 45 s. Most clients give a
	// call 60 s.
	Wait time.Duration
	// MaxOutput limits the bytes of each stream in a result, half from the beginning and half from the end, and of a list of
	// files; 0 is 24 KiB. The rest can be read.
	MaxOutput int
}

// The defaults of [Terms], and their limits.
const (
	DefaultWait      = 45 * time.Second
	MaxWait          = time.Hour
	DefaultMaxOutput = 24 << 10
	MinMaxOutput     = 256
	MaxMaxOutput     = 1 << 20
)

// DefaultCapture returns the globs of files that are always artifacts of one-shot runs: pictures, and folders for results.
func DefaultCapture() []string {
	return []string{
		"**/*.png", "**/*.jpg", "**/*.jpeg", "**/*.gif", "**/*.svg", "**/*.pdf",
		"artifacts/**", "output/**", "outputs/**",
	}
}

// runTool is the name of the sandbox API's tool.
const runTool = "sandbox.run"

// complete checks the terms and sets their defaults.
func (t *Terms) complete() error {
	if m := t.InMode(); m != belljar.ToolsCompute && m != belljar.ToolsCode {
		return api.Refuse("mode", "mode %.40q is not compute or code", t.Mode)
	}
	if t.Language != "" {
		if _, known := belljar.LanguageOf(t.Language); !known {
			e := api.Refuse("language", "language %.40q is not known", t.Language)
			e.Hint = "one of " + strings.Join(languages(), ", ")
			return e
		}
	}
	if t.Workflow != "" && t.Agent != "" {
		return api.Refuse("workflow", "workflow and agent exclude each other")
	}
	switch t.Session {
	case belljar.IsolatedKey:
		t.Workflow = "" // an isolated session is not shared
	case belljar.DefaultKey:
		t.Session = "" // as in an agent's file: it forbids no other names
	}
	spec := t.session(t.Scope())
	if err := spec.Validate(); err != nil {
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
			return api.Refuse(strings.ReplaceAll(f.name, " ", "_"), "%s must not be less than 0", f.name)
		}
	}
	t.Wait, t.MaxOutput = cmp.Or(t.Wait, DefaultWait), cmp.Or(t.MaxOutput, DefaultMaxOutput)
	if t.Wait > MaxWait {
		return api.Refuse("wait", "wait is at most %v", MaxWait)
	}
	if t.MaxOutput < MinMaxOutput || t.MaxOutput > MaxMaxOutput {
		return api.Refuse("max_output", "max output is %d to %d bytes", MinMaxOutput, MaxMaxOutput)
	}
	all := t.modeTools()
	for _, name := range t.Tools {
		if !slices.Contains(all, name) {
			e := api.Refuse("tools", "mode %s has no tool %.40q", t.InMode(), name)
			e.Hint = "it has " + strings.Join(all, ", ")
			return e
		}
	}
	return nil
}

// modeTools returns the tools that the mode has.
func (t *Terms) modeTools() []string { return append(t.InMode().Tools(), runTool) }

// offers reports whether a tool is on offer.
func (t *Terms) offers(name string) bool {
	if len(t.Tools) > 0 {
		return slices.Contains(t.Tools, name)
	}
	return slices.Contains(t.modeTools(), name)
}

// session returns the sandbox with a scope.
func (t *Terms) session(scope belljar.Scope) belljar.SessionSpec {
	return belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: t.Image, Template: t.Template, Runtime: t.Runtime, Isolation: t.Isolation, TrustLevel: t.TrustLevel,
		Resources: t.Resources, TimeoutSec: t.TimeoutSec, IdleTimeoutSec: t.IdleTimeoutSec, TTLSec: t.IdleTimeoutSec, NetworkPolicy: t.policy(), Egress: t.Egress,
		Secrets: t.Secrets, Packages: t.Packages, Git: t.Git, Scope: scope, WorkspaceExec: true,
	}
}

// timeout returns the time limit of a command in seconds. asked is the limit that the command requests; 0 is the operator's
// default.
func (t *Terms) timeout(field string, asked float64) (float64, error) {
	if asked <= 0 {
		return t.TimeoutSec, nil
	}
	if t.TimeoutSec > 0 && asked > t.TimeoutSec {
		return 0, exceeds(field, asked, t.TimeoutSec, "a command may take %v seconds at most, got %v", t.TimeoutSec, asked)
	}
	return asked, nil
}

// fixed returns the operator's value, or the request's if the operator set none. A request for another value is refused.
func fixed(field, asked, operators string) (string, error) {
	if asked != "" && operators != "" && asked != operators {
		return "", exceeds(field, asked, operators, "%s here is %s, and nothing else", field, operators)
	}
	return cmp.Or(asked, operators), nil
}

// setsImage reports whether the operator sets the image of all sandboxes. A template has one.
func (t *Terms) setsImage() bool { return t.Image != "" || t.Template != "" }

// exceeds refuses a request for more than the terms allow.
func exceeds(field string, asked, maximum any, format string, args ...any) error {
	return &belljar.Error{
		Code: belljar.CodePolicyDenied, Message: fmt.Sprintf(format, args...),
		Details: map[string]any{"field": field, "provided": asked, "maximum": maximum, "rule": "operator"},
		Hint:    "ask for less, or leave " + field + " out",
	}
}

// maxQuery bounds the query of a URL, because the session id contains it.
const maxQuery = 512

// parameter sets a term to the value of a URL's parameter. It refuses more than the server's own terms allow.
type parameter = func(name, value string) error

// narrowed returns the terms of a client whose URL has a query: the server's terms, or less.
func (t Terms) narrowed(query string) (Terms, error) {
	q, err := url.ParseQuery(query)
	if err != nil || len(query) > maxQuery {
		return t, api.Refuse("url", "the query of the URL cannot be read, or is longer than %d bytes", maxQuery)
	}
	n := t
	wait, output := 0.0, 0
	parameters := map[string]parameter{
		"agent": textTo(&n.Agent), "image": textTo(&n.Image), "isolation": textTo(&n.Isolation), "language": textTo(&n.Language),
		"runtime": textTo(&n.Runtime), "session": textTo(&n.Session), "template": textTo(&n.Template), "trust": textTo(&n.TrustLevel), "workflow": textTo(&n.Workflow),
		"cpu": numberTo(&n.Resources.CPU), "idle_timeout": numberTo(&n.IdleTimeoutSec), "timeout": numberTo(&n.TimeoutSec), "wait": numberTo(&wait),
		"max_output": numberTo(&output), "memory_mb": numberTo(&n.Resources.MemoryMB), "workspace_mb": numberTo(&n.Resources.WorkspaceMB),
		"mode": func(name, value string) error {
			if value == string(belljar.ToolsCompute) {
				n.Mode = ""
			}
			return textTo(&n.Mode)(name, value)
		},
		"tools": toolsTo(&n.Tools),
		"allow": nil, "capture": nil, // these may be repeated, and are read below
	}
	names := slices.Sorted(maps.Keys(parameters))
	for _, name := range slices.Sorted(maps.Keys(q)) {
		set, known := parameters[name]
		switch {
		case !known:
			e := api.Refuse(name, "the URL has an unknown parameter %.40q", name)
			e.Hint = "the parameters are " + strings.Join(names, ", ")
			if near := nearest.Of(name, 3, names); near != "" {
				e.Hint = "did you mean " + near + "? " + e.Hint
			}
			return t, e
		case set == nil:
			continue
		case len(q[name]) > 1:
			return t, api.Refuse(name, "the URL has %s more than once", name)
		}
		if err := set(name, q.Get(name)); err != nil {
			return t, err
		}
	}
	if wait > 0 {
		n.Wait = time.Duration(min(wait, MaxWait.Seconds()+1) * float64(time.Second))
	}
	if output > 0 {
		n.MaxOutput = output
	}
	n.Capture = append(slices.Clone(t.Capture), q["capture"]...)
	if err := n.allow(q["allow"]); err != nil {
		return t, err
	}
	return n, n.complete()
}

func textTo[T ~string](field *T) parameter {
	return func(name, value string) error {
		text, err := fixed(name, value, string(*field))
		*field = T(text)
		return err
	}
}

// numberTo reads a number, or a duration as seconds.
func numberTo[N int | float64](field *N) parameter {
	return func(name, text string) error {
		if text == "" {
			return nil
		}
		asked, err := strconv.ParseFloat(text, 64)
		if err != nil {
			var span time.Duration
			if span, err = time.ParseDuration(text); err == nil {
				asked = span.Seconds()
			}
		}
		switch {
		case err != nil || !(asked > 0) || math.IsInf(asked, 0):
			return api.Refuse(name, "%s of the URL is %.40q, and no number above 0", name, text)
		case *field > 0 && asked > float64(*field):
			return exceeds(name, asked, *field, "%s is %v at most on this server, the URL asks for %v", name, *field, asked)
		case float64(N(asked)) != asked:
			return api.Refuse(name, "%s of the URL must be a whole number", name)
		}
		*field = N(asked)
		return nil
	}
}

// toolsTo reads a list of names. An empty list changes nothing.
func toolsTo(field *[]string) parameter {
	return func(_, list string) error {
		offered := *field
		var picked []string
		for name := range strings.SplitSeq(list, ",") {
			switch {
			case name == "":
			case len(offered) > 0 && !slices.Contains(offered, name):
				return exceeds("tools", name, offered, "this server offers %s, and not %.40q", strings.Join(offered, ", "), name)
			default:
				picked = append(picked, name)
			}
		}
		if len(picked) > 0 {
			*field = picked
		}
		return nil
	}
}
