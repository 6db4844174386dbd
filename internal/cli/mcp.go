package cli

import (
	"context"
	"maps"
	"os"
	"os/signal"
	"syscall"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/quantity"
)

// mcpCommand is belljar mcp.
type mcpCommand struct {
	AgentFile string   `group:"what" placeholder:"FILE" help:"Read the settings from the sandbox: block of an agent file; flags override them."`
	Mode      string   `group:"what" placeholder:"MODE" help:"compute: one-shot runs (default); code: a sandbox that lasts, with commands and files."`
	Language  string   `group:"what" placeholder:"NAME" help:"Language of code that names none: python (default), node, bash …"`
	Image     string   `group:"what" placeholder:"REF" help:"Root file system of every sandbox; the model can name no other."`
	Template  string   `group:"what" placeholder:"NAME" help:"Template of every sandbox: its image, packages, environment and files."`
	Runtime   string   `group:"what" placeholder:"NAME" help:"Isolation: native, gvisor, docker; the model can name no other."`
	Class     string   `group:"what" name:"isolation" placeholder:"CLASS" help:"Weakest class of isolation to accept: namespace, user_space_kernel, microvm."`
	Trust     string   `group:"what" placeholder:"LEVEL" help:"How far you trust the model's programs: trusted, standard, untrusted."`
	Allow     []string `group:"what" sep:"none" placeholder:"RULE" help:"Let sandboxes reach a host, all names below one (*.example.com), a network or an address. Repeatable."`
	Broker    []string `group:"what" sep:"none" placeholder:"NAME=HOST" help:"Keep a secret out of the sandboxes, and set it on HTTPS requests to the host, as for belljar run. Repeatable."`
	Secret    []string `group:"what" sep:"none" placeholder:"NAME[=SOURCE]" help:"Put a secret into /run/secrets/NAME of every sandbox, as for belljar run. Repeatable."`
	presetFlags
	packageFlags
	Tools string `group:"what" placeholder:"LIST" help:"Offer only these tools, of those of the mode and sandbox.run; separated by commas."`

	Timeout     *quantity.Seconds   `group:"limits" placeholder:"TIME" help:"Time limit of a command; the model can ask for less."`
	IdleTimeout *quantity.Seconds   `group:"limits" placeholder:"TIME" help:"End a sandbox after this time without activity."`
	CPU         *quantity.Cores     `group:"limits" name:"cpu" aliases:"cpus" placeholder:"N" help:"Processors of a sandbox."`
	Memory      *quantity.Mebibytes `group:"limits" short:"m" placeholder:"SIZE" help:"Memory of a sandbox: 512m, 2g."`
	Workspace   *quantity.Mebibytes `group:"limits" placeholder:"SIZE" help:"Size of /workspace."`

	Workflow string `group:"session" placeholder:"ID" help:"Share the sandboxes of this workflow with its other agents, and keep them when this command ends. Both need a server."`
	Session  string `group:"session" placeholder:"NAME" help:"Name of the sandbox in the workflow; isolated makes a new one (default: the name default)."`

	Capture   []string          `group:"output" short:"c" sep:"none" placeholder:"GLOB" help:"Keep matching files, in addition to pictures and files in artifacts/, output/ and outputs/. For one-shot runs. Repeatable."`
	Wait      *quantity.Seconds `group:"output" placeholder:"TIME" help:"Time after which a call returns status running while its command continues (default 45s)."`
	MaxOutput *quantity.Count   `group:"output" placeholder:"BYTES" help:"Most of each stream that a result holds (default 24576)."`
}

func (m *mcpCommand) Help() string {
	return `An MCP host starts this command and speaks the Model Context Protocol with it. No server is needed; with --server or
BELLJAR_SERVER the sandboxes are on that server. The command ends with its standard input, and its sandboxes end with it;
those of a --workflow on a server continue. A server offers the same tools at /mcp. Settings for hosts: docs/mcp.md.

Examples:
  belljar mcp                                          sandbox_run, to run code
  belljar mcp --mode code --memory 1g --timeout 5m     a sandbox that lasts, for an IDE
  belljar mcp --agent-file coder.md --workflow run_42  with the settings of an agent file, in a workflow
  belljar mcp --allow api.example.com                  programs may reach that host
  claude mcp add belljar -- belljar mcp --mode code`
}

// Run serves MCP on standard input and output.
func (m *mcpCommand) Run(ctx context.Context, c *console) (err error) {
	set, err := m.toolset()
	if err == nil {
		var more map[string]belljar.Secret
		more, err = (&secretFlags{Secret: m.Secret, Broker: m.Broker}).secrets(c)
		if set.Secrets == nil {
			set.Secrets = map[string]belljar.Secret{}
		}
		maps.Copy(set.Secrets, more)
	}
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return m.serve(ctx, c, set)
}

// toolset returns the limits and tools from the file and the flags.
func (m *mcpCommand) toolset() (belljar.Toolset, error) {
	set, err := m.agentFile()
	if err != nil {
		return set, err
	}
	for _, f := range []struct {
		field *string
		value string
	}{
		{&set.Language, m.Language}, {&set.Image, m.Image}, {&set.Template, m.Template}, {&set.Runtime, m.Runtime}, {&set.Isolation, m.Class},
		{&set.Workflow, m.Workflow}, {&set.Session, m.Session},
	} {
		if f.value != "" {
			*f.field = f.value
		}
	}
	if policy, egress := allowed(m.Allow, m.AllowPreset); policy != "" {
		set.Network, set.Egress = true, egress
	}
	if packages := m.packages(); !packages.IsZero() {
		set.Packages = packages
	}
	if m.Mode != "" {
		set.Mode = belljar.ToolMode(m.Mode)
	}
	if m.Trust != "" {
		set.TrustLevel = belljar.TrustLevel(m.Trust)
	}
	if m.Timeout != nil {
		set.TimeoutSec = value(m.Timeout)
	}
	if m.IdleTimeout != nil {
		set.IdleTimeoutSec = value(m.IdleTimeout)
	}
	if m.CPU != nil {
		set.Resources.CPU = value(m.CPU)
	}
	if m.Memory != nil {
		set.Resources.MemoryMB = int(whole(m.Memory))
	}
	if m.Workspace != nil {
		set.Resources.WorkspaceMB = int(whole(m.Workspace))
	}
	return set, nil
}
