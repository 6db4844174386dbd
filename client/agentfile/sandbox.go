package agentfile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/belljar/belljar"
)

// Sandbox is the sandbox block of an agent file. A zero field is one that the file does not have.
type Sandbox struct {
	Mode    belljar.ToolMode // compute (also ""): one-shot runs; code: a session that lasts
	Runtime string           // the language: python, node, bash and the others that Belljar runs; "" leaves it to the model
	Image   string           // "" is the server's default
	// Session is the session's name in its workflow, in code mode: "" and default are the one that all agents of the workflow
	// share, isolated is one of its own.
	Session string
	Limits  Limits
	Network Network

	// Of the first version of the format.
	TimeoutSeconds int // of every command; a model can ask for less
	AllowNetwork   bool
	PipPackages    []string
	NpmPackages    []string
}

// Limits are those of the sandbox. 0 is the server's default.
type Limits struct {
	CPUMillicores  int // 1000 is one CPU
	MemoryMB       int // MiB
	TimeoutSeconds int // without activity, after which a session ends; code mode only
	WorkspaceMB    int // MiB
}

// Network is what a sandbox reaches.
type Network struct{ Enabled bool }

// ExecutionContext is for which run of the agent its tools are.
type ExecutionContext struct {
	WorkflowRunID string // the workflow's run, if the agent is a step of one
	AgentRunID    string // the agent's run, if it stands alone
}

// InMode is the mode in force.
func (s *Sandbox) InMode() belljar.ToolMode {
	if s.Mode == "" {
		return belljar.ToolsCompute
	}
	return s.Mode
}

// Tools names the tools that the agent's model gets besides its others (docs/compatibility.md#two-modes): none if s is nil.
func (s *Sandbox) Tools() []string {
	if s == nil {
		return nil
	}
	return s.InMode().Tools()
}

// The bounds of numbers. What a server allows is its own business; these only keep out what nobody means.
const (
	leastMillicores = 10
	leastMemoryMB   = 8
	mostMillicores  = 1_024_000
	mostMB          = 16 << 20
	mostSeconds     = 365 * 24 * 60 * 60
)

// number is one of them: a field, its value, and what it may be.
type number struct {
	field       string
	value       *int
	least, most int
}

func (s *Sandbox) numbers() []number {
	return []number{
		{"timeout_seconds", &s.TimeoutSeconds, 1, mostSeconds},
		{"limits.cpu_millicores", &s.Limits.CPUMillicores, leastMillicores, mostMillicores},
		{"limits.memory_mb", &s.Limits.MemoryMB, leastMemoryMB, mostMB},
		{"limits.timeout_seconds", &s.Limits.TimeoutSeconds, 1, mostSeconds},
		{"limits.workspace_mb", &s.Limits.WorkspaceMB, 1, mostMB},
	}
}

// issue is something wrong with a field.
type issue struct {
	field string // without "sandbox."
	err   error
	hint  string
}

// issues are what is wrong with a sandbox, however it was made. A number of 0 is none.
func (s *Sandbox) issues() (found []issue) {
	add := func(field, hint string, err error) {
		if err != nil {
			found = append(found, issue{field, err, hint})
		}
	}
	switch s.InMode() {
	case belljar.ToolsCompute:
		if s.Session != "" && s.Session != belljar.DefaultKey {
			add("session", "say mode: code, or leave it out", errors.New("needs mode code: in mode compute every run gets a fresh sandbox"))
		}
		if s.Limits.TimeoutSeconds != 0 {
			add("limits.timeout_seconds", "the time of a command is timeout_seconds, next to limits", errors.New("is the idle time of a session, and needs mode code"))
		}
	case belljar.ToolsCode:
	default:
		add("mode", "", fmt.Errorf("%q is not known, it is compute or code", short(string(s.Mode))))
	}
	add("runtime", "", checkRuntime(s.Runtime))
	add("image", "", checkImage(s.Image))
	add("session", "", checkSession(s.Session))
	for _, n := range s.numbers() {
		if *n.value != 0 {
			add(n.field, "", n.check(*n.value))
		}
	}
	return found
}

// check refuses a number that nobody means.
func (n number) check(value int) error {
	if value < n.least || value > n.most {
		return fmt.Errorf("must be from %d to %d, not %d", n.least, n.most, value)
	}
	return nil
}

// checkRuntime refuses a language that Belljar does not know.
func checkRuntime(name string) error {
	if name == "" {
		return nil
	}
	if _, known := belljar.LanguageOf(name); known {
		return nil
	}
	return fmt.Errorf("%q is not known, it is one of %s", short(name), strings.Join(Runtimes(), ", "))
}

// Runtimes are the languages that a file can name; those of the session tools come first, by their names.
func Runtimes() []string {
	names := []string{"python", "node", "bash"}
	own := len(names)
	for _, l := range belljar.Languages() {
		named := false
		for _, name := range names[:own] {
			other, _ := belljar.LanguageOf(name)
			named = named || other.Name == l.Name
		}
		if !named {
			names = append(names, l.Aliases[0])
		}
	}
	return names
}

// checkImage keeps out what names no image.
func checkImage(name string) error {
	const most = 512
	switch {
	case len(name) > most:
		return fmt.Errorf("is longer than %d bytes", most)
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%q is not the name of an image", short(name))
	}
	return nil
}

// checkSession keeps out what is no name of a session.
func checkSession(name string) error {
	err := belljar.Scope{Namespace: "workflow", ID: "x", Key: name}.Validate()
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "scope.key"), ": "))
}

// Toolset is what belljar needs to know for one run of the agent. In a workflow its session is shared with the other agents
// of that run, under the name that the file gives it; alone it has one of its own (docs/compatibility.md#scopes). Without either id a session is
// nobody's to find.
//
// The error is [belljar.CodeInvalidRequest] for a sandbox that makes no sense, and [belljar.CodePolicyDenied] for one that
// wants the network, or packages from it: Belljar has no way out of its sandboxes.
func (s *Sandbox) Toolset(run ExecutionContext) (belljar.Toolset, error) {
	if s == nil {
		return belljar.Toolset{}, refused("the agent has no sandbox")
	}
	for _, i := range s.issues() {
		e := refused("sandbox.%s %v", i.field, i.err)
		e.Details, e.Hint = map[string]any{"field": "sandbox." + i.field}, i.hint
		return belljar.Toolset{}, e
	}
	if err := s.checkEgress(); err != nil {
		return belljar.Toolset{}, err
	}
	t := belljar.Toolset{
		Mode: s.InMode(), Language: strings.ToLower(s.Runtime), Image: s.Image, TimeoutSec: float64(s.TimeoutSeconds),
		IdleTimeoutSec: float64(s.Limits.TimeoutSeconds),
		Resources: belljar.Resources{
			CPU: float64(s.Limits.CPUMillicores) / 1000, MemoryMB: s.Limits.MemoryMB, WorkspaceMB: s.Limits.WorkspaceMB,
		},
	}
	switch {
	case s.Session == belljar.IsolatedKey:
		t.Session = belljar.IsolatedKey
	case run.WorkflowRunID != "":
		t.Workflow, t.Session = run.WorkflowRunID, s.Session
	default:
		t.Agent = run.AgentRunID
	}
	if err := t.Scope().Validate(); err != nil {
		return belljar.Toolset{}, err
	}
	return t, nil
}

// checkEgress refuses what needs a network.
func (s *Sandbox) checkEgress() error {
	refuse := func(field, hint string) error {
		return &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "sandbox." + field + " needs a network, which sandboxes do not have",
			Details: map[string]any{"field": "sandbox." + field}, Hint: hint,
		}
	}
	const packages = "name an image that contains the packages, in sandbox.image"
	switch {
	case len(s.PipPackages) > 0:
		return refuse("pip_packages", packages)
	case len(s.NpmPackages) > 0:
		return refuse("npm_packages", packages)
	case s.Network.Enabled:
		return refuse("network.enabled", "leave it out; files can be given to a session before the agent begins")
	case s.AllowNetwork:
		return refuse("allow_network", "leave it out; files can be given to a session before the agent begins")
	}
	return nil
}
