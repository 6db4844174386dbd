package belljar

// ToolMode is what tools a model gets (docs/compatibility.md#two-modes).
type ToolMode string

// The modes of a toolset.
const (
	ToolsCompute ToolMode = "compute" // one-shot runs
	ToolsCode    ToolMode = "code"    // a session that lasts: exec and files
)

// Toolset is what an operator lets a model do with Belljar, as in the `sandbox:` block of an agent file (docs/compatibility.md#agent-files). A model
// cannot widen it; the policy of the server holds besides. The zero value is compute mode with the server's defaults.
type Toolset struct {
	Mode     ToolMode // "" is [ToolsCompute]
	Language string   // `runtime` of the tools: what code is written in that does not say; "" leaves it to the model
	Image    string   // "" is the server's default, or the template's
	Template string   // the template of every sandbox; "" is none

	// Runtime, Isolation and TrustLevel are as in [RunSpec]. Agent files have none of them.
	Runtime    string
	Isolation  string
	TrustLevel TrustLevel

	Resources      Resources
	TimeoutSec     float64 // of every command; a model can ask for less. 0 is the server's default
	IdleTimeoutSec float64 // of the session, `limits.timeout_seconds` of an agent file; 0 is the server's default
	Network        bool    // sandboxes reach what Egress lists; otherwise nothing
	Egress         Egress
	Secrets        map[string]Secret // of every sandbox
	Packages       Packages          // of every sandbox
	Git            *GitSpec          // whose files every sandbox begins with; nil is none

	// Session is the session's key among those of the same workflow: "" is [DefaultKey], [IsolatedKey] is a session of its own.
	Session string
	// Workflow is the run of a workflow whose agents share their sessions, Agent an agent's run of its own; at most one of them.
	Workflow, Agent string
}

// InMode is the mode in force.
func (t Toolset) InMode() ToolMode {
	if t.Mode == "" {
		return ToolsCompute
	}
	return t.Mode
}

// Scope names the session that the toolset's tools work in (docs/compatibility.md#scopes): the workflow's, or the agent run's own, which is
// always [DefaultKey].
func (t Toolset) Scope() Scope {
	switch {
	case t.Session == IsolatedKey:
		return Scope{Key: IsolatedKey}
	case t.Workflow != "":
		return Scope{Namespace: "workflow", ID: t.Workflow, Key: t.Session}
	case t.Agent != "":
		return Scope{Namespace: "agent", ID: t.Agent}
	}
	return Scope{Key: IsolatedKey}
}

// Tools are the names of the tools that a mode consists of (docs/compatibility.md#two-modes), without sandbox.run, which every mode may have.
func (m ToolMode) Tools() []string {
	if m == ToolsCode {
		return []string{
			"sandbox_open", "sandbox_exec", "sandbox_exec_read", "sandbox_exec_wait", "sandbox_code", "sandbox_fork",
			"sandbox_fs_write", "sandbox_fs_read", "sandbox_fs_list", "sandbox_fs_delete", "sandbox_close",
		}
	}
	return []string{"sandbox_run"}
}
