package belljar

import "cmp"

// ToolMode selects the tools of a model (docs/compatibility.md#two-modes).
type ToolMode string

// The modes of a toolset.
const (
	ToolsCompute ToolMode = "compute" // one-shot runs
	ToolsCode    ToolMode = "code"    // a persistent session: exec and files
)

// Toolset is the operator's configuration of a model's tools, as in the `sandbox:` block of an agent file (docs/compatibility.md#agent-files). A
// model cannot extend it, and the server's policy applies as well. The zero value is compute mode with the server's defaults.
type Toolset struct {
	Mode     ToolMode // "" is [ToolsCompute]
	Language string   // `runtime` of the tools: the default language of code; "" lets the model choose
	Image    string   // "" is the server's default, or the template's
	Template string   // the template of every sandbox; "" is none

	// Runtime, Isolation and TrustLevel are as in [RunSpec]. Agent files have none of them.
	Runtime    string
	Isolation  string
	TrustLevel TrustLevel

	Resources      Resources
	TimeoutSec     float64 // of every command; a model can set less. 0 is the server's default
	IdleTimeoutSec float64 // of the session, `limits.timeout_seconds` of an agent file; 0 is the server's default
	Network        bool    // sandboxes reach the destinations in Egress; otherwise none
	Egress         Egress
	Secrets        map[string]Secret // of every sandbox
	Packages       Packages          // of every sandbox
	Git            *GitSpec          // repository cloned into every sandbox; nil is none

	// Session is the session's key within the same workflow: "" is [DefaultKey], [IsolatedKey] is a separate session.
	Session string
	// Workflow is the workflow run whose agents share their sessions, Agent a single agent run. At most one is set.
	Workflow, Agent string
}

// InMode returns the mode in force.
func (t Toolset) InMode() ToolMode { return cmp.Or(t.Mode, ToolsCompute) }

// Scope returns the scope of the session in which the tools work (docs/compatibility.md#scopes): the workflow's, or the agent run's own with
// [DefaultKey].
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

// Tools returns the names of a mode's tools (docs/compatibility.md#two-modes), without sandbox.run, which every mode may have.
func (m ToolMode) Tools() []string {
	if m == ToolsCode {
		return []string{
			"sandbox_open", "sandbox_exec", "sandbox_exec_read", "sandbox_exec_wait", "sandbox_code", "sandbox_fork",
			"sandbox_fs_write", "sandbox_fs_read", "sandbox_fs_list", "sandbox_fs_delete", "sandbox_close",
		}
	}
	return []string{"sandbox_run"}
}
