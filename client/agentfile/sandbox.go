package agentfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/belljar/belljar"
)

// Sandbox is the sandbox block of an agent file. A zero field is unset.
type Sandbox struct {
	Mode     belljar.ToolMode // compute (the default): one-shot runs; code: a session
	Runtime  string           // the language: python, node, bash or another of [Runtimes]; "" leaves the choice to the model
	Image    string           // "" means the server's default, or the template\'s
	Template string           // of every sandbox; "" means none
	// Session is the session's name in its workflow, in code mode. All agents of the workflow share the session default,
	// which is also the default; isolated means a session of its own.
	Session string
	Limits  Limits
	Network Network

	// The fields of the first version of the format.
	TimeoutSeconds int // of every command; a model can set less
	AllowNetwork   bool
	PipPackages    []string
	NpmPackages    []string

	// Secrets refers to stored secrets, by their names in the sandbox: each has From, and may be brokered. A file never has a value.
	Secrets map[string]belljar.Secret
	Git     *belljar.GitSpec // repository cloned into workspaces; without a patch
}

// Limits are the limits of the sandbox. 0 means the server's default.
type Limits struct {
	CPUMillicores  int // 1000 is one CPU
	MemoryMB       int // MiB
	TimeoutSeconds int // idle time after which a session ends; code mode only
	WorkspaceMB    int // MiB
}

// Network is the network access of a sandbox.
type Network struct {
	Enabled bool
	Allow   []string // permitted destinations: hosts, *.example.com for all names below one, networks, addresses
	Presets []string // the package sources of its tools: pip, npm, …
}

// ExecutionContext identifies the run of the agent.
type ExecutionContext struct {
	WorkflowRunID string // the workflow's run, if the agent is a step of one
	AgentRunID    string // the agent's run outside a workflow
}

// InMode returns the mode, with its default.
func (s *Sandbox) InMode() belljar.ToolMode {
	if s.Mode == "" {
		return belljar.ToolsCompute
	}
	return s.Mode
}

// Tools returns the names of Belljar's tools for the agent's model (docs/compatibility.md#two-modes): none if s is nil.
func (s *Sandbox) Tools() []string {
	if s == nil {
		return nil
	}
	return s.InMode().Tools()
}

// Limits of numbers. They only reject mistakes; a server may allow less.
const (
	minMillicores = 10
	minMemoryMB   = 8
	maxMillicores = 1_024_000
	maxMB         = 16 << 20
	maxSeconds    = 365 * 24 * 60 * 60
)

// number is a field with a number and its limits.
type number struct {
	field       string
	value       *int
	least, most int
}

func (s *Sandbox) numbers() []number {
	return []number{
		{"timeout_seconds", &s.TimeoutSeconds, 1, maxSeconds},
		{"limits.cpu_millicores", &s.Limits.CPUMillicores, minMillicores, maxMillicores},
		{"limits.memory_mb", &s.Limits.MemoryMB, minMemoryMB, maxMB},
		{"limits.timeout_seconds", &s.Limits.TimeoutSeconds, 1, maxSeconds},
		{"limits.workspace_mb", &s.Limits.WorkspaceMB, 1, maxMB},
	}
}

// issue is a problem with a field.
type issue struct {
	field string // without "sandbox."
	err   error
	hint  string
}

// issues returns the problems of a sandbox, from a file or not. A number of 0 is unset.
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
	add("pip_packages", "write names, with extras and versions if need be: pandas>=2", checkPackages(belljar.Packages{Pip: s.PipPackages}))
	add("npm_packages", "write names, with versions if need be: left-pad@1.3.0", checkPackages(belljar.Packages{Npm: s.NpmPackages}))
	add("network.allow", "set network.enabled: true, too", s.checkAllow(s.Network.Allow))
	add("network.presets", "set network.enabled: true, too", s.checkAllow(s.Network.Presets))
	found = append(found, s.checkSources()...)
	for _, n := range s.numbers() {
		if *n.value != 0 {
			add(n.field, "", n.check(*n.value))
		}
	}
	return found
}

// checkSources checks secrets and the repository in the same way as a server checks those of a session.
func (s *Sandbox) checkSources() (found []issue) {
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		if s.Secrets[name].From == "" {
			found = append(found, issue{"secrets." + name, errors.New("needs from, the name of a stored secret"), "belljar secret set stores one"})
		}
	}
	if len(found) > 0 || len(s.Secrets) == 0 && s.Git == nil {
		return found
	}
	spec := belljar.SessionSpec{NetworkPolicy: belljar.NetworkDenyAll, Secrets: s.Secrets, Git: s.Git}
	if s.networked() {
		spec.NetworkPolicy, spec.Egress = belljar.NetworkAllowlist, belljar.ParseEgress(s.Network.Allow)
	}
	var e *belljar.Error
	if !errors.As(spec.Validate(), &e) {
		return nil
	}
	field, _ := e.Details["field"].(string)
	if part, _, _ := strings.Cut(field, "."); part != "secrets" && part != "git" {
		return nil // about another field, which has its own check
	}
	hint := strings.NewReplacer(" network_policy to "+belljar.NetworkAllowlist, " network.enabled: true", "egress.hosts", "network.allow").Replace(e.Hint)
	return []issue{{field, errors.New(strings.TrimPrefix(e.Message, field+" ")), hint}}
}

func checkPackages(p belljar.Packages) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("is wrong: %w", err)
	}
	return nil
}

// check returns an error for a number outside its limits.
func (n number) check(value int) error {
	if value < n.least || value > n.most {
		return fmt.Errorf("must be from %d to %d, not %d", n.least, n.most, value)
	}
	return nil
}

// networked reports whether the sandbox has a network, in either version of the format.
func (s *Sandbox) networked() bool { return s.Network.Enabled || s.AllowNetwork }

// checkAllow returns an error for rules or presets without a network. A server checks the rules themselves.
func (s *Sandbox) checkAllow(list []string) error {
	if len(list) > 0 && !s.networked() {
		return errors.New("needs network.enabled")
	}
	return nil
}

// checkRuntime returns an error for an unknown language.
func checkRuntime(name string) error {
	if name == "" {
		return nil
	}
	if _, known := belljar.LanguageOf(name); known {
		return nil
	}
	return fmt.Errorf("%q is not known, it is one of %s", short(name), strings.Join(Runtimes(), ", "))
}

// Runtimes returns the languages that a file can name. Those of the session tools come first, by their own names.
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

// checkImage returns an error for an invalid image name.
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

// checkSession returns an error for an invalid session name.
func checkSession(name string) error {
	err := belljar.Scope{Namespace: "workflow", ID: "x", Key: name}.Validate()
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "scope.key"), ": "))
}

// Toolset returns the settings for one run of the agent. In a workflow the agent shares its session with the other agents of that run, under
// the name in the file. Otherwise it has its own session (docs/compatibility.md#scopes). Without either id no other run can find the session.
//
// The error is [belljar.CodeInvalidRequest] for an invalid sandbox, and [belljar.CodePolicyDenied] for one that needs a network
// without a list of permitted destinations.
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
		Mode: s.InMode(), Language: strings.ToLower(s.Runtime), Image: s.Image, Template: s.Template, TimeoutSec: float64(s.TimeoutSeconds),
		IdleTimeoutSec: float64(s.Limits.TimeoutSeconds),
		Resources: belljar.Resources{
			CPU: float64(s.Limits.CPUMillicores) / 1000, MemoryMB: s.Limits.MemoryMB, WorkspaceMB: s.Limits.WorkspaceMB,
		},
	}
	t.Packages = belljar.Packages{Pip: s.PipPackages, Npm: s.NpmPackages}
	t.Secrets, t.Git = s.Secrets, s.Git
	if s.networked() {
		t.Network, t.Egress = true, belljar.ParseEgress(s.Network.Allow)
		t.Egress.Presets = s.Network.Presets
	}
	switch {
	case s.Session == belljar.IsolatedKey:
		t.Session = belljar.IsolatedKey
	case run.WorkflowRunID != "":
		t.Workflow = run.WorkflowRunID
		if s.Session != belljar.DefaultKey { // naming the default is the same as naming none
			t.Session = s.Session
		}
	default:
		t.Agent = run.AgentRunID
	}
	if err := t.Scope().Validate(); err != nil {
		return belljar.Toolset{}, err
	}
	return t, nil
}

// checkEgress returns an error if the sandbox has a network without a list of destinations, which Belljar does not support.
func (s *Sandbox) checkEgress() error {
	refuse := func(field, message, hint string) error {
		return &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "sandbox." + field + " " + message,
			Details: map[string]any{"field": "sandbox." + field}, Hint: hint,
		}
	}
	const open, list = "needs a list of what the sandbox may reach", "list hosts in sandbox.network.allow: [api.example.com]"
	switch {
	case len(s.Network.Allow)+len(s.Network.Presets) > 0:
		return nil
	case s.Network.Enabled:
		return refuse("network.enabled", open, list)
	case s.AllowNetwork:
		return refuse("allow_network", open, list)
	}
	return nil
}
