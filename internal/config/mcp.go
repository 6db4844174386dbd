package config

import (
	"errors"
	"strings"
)

func models(c *Config) []row {
	return []row{
		{name: "MCP_ENABLED", value: boolean(&c.MCP), def: "true", doc: "Serve the Model Context Protocol at /mcp (docs/mcp.md)."},
		{name: "MCP_MODE", value: oneOf(&c.MCPMode, "", "compute", "code"), def: "",
			doc: "Tools of models: compute is one-shot runs, code a sandbox that persists. If unset, a client's URL chooses (?mode=code), and compute is the default. If it is compute, no URL gets code."},
		{name: "MCP_TOOLS", value: list(&c.MCPTools, checkTool), def: "[]",
			doc: "Tools of the mode that are offered, including sandbox.run; an empty list offers all. A client's URL can select among these."},
		{name: "MCP_ALLOW", value: list(&c.MCPAllow, checkRule), def: "[]",
			doc: "What sandboxes of models may reach, of what SANDBOX_EGRESS_ALLOW allows, in the same form without *. A client's URL can select among these; if this is empty, it may name any (?allow=api.example.com)."},
		{name: "MCP_ALLOW_PRESETS", value: list(&c.MCPAllowPresets, checkPreset), def: "[]",
			doc: "Where tools in the sandboxes of models get packages, of EGRESS_PRESETS: pip, npm. A client's URL cannot select among these."},
		{name: "MCP_IMAGE", value: text(&c.MCPImage, checkImage), doc: "Image of all sandboxes of models. If unset, a client's URL may name one, and otherwise sandbox.run may name any; sandboxes without an image get DEFAULT_IMAGE."},
		{name: "MCP_RUNTIME", value: oneOf(&c.MCPRuntime, "", "native", "docker", "gvisor", "firecracker"), def: "", doc: "Runtime of all sandboxes of models. If unset, as MCP_IMAGE. The server does not start with firecracker, which Belljar does not have."},
		{name: "MCP_TIMEOUT_SEC", value: integer(&c.MCPTimeoutSec, 0, 31536000), unit: "seconds", def: "0", doc: "Most time of a model's command, and its default, up to MAX_EXEC_TIMEOUT_SEC; 0 means as for every request. A client's URL can set less, and a model less than that."},
		{name: "MCP_CPU", value: number(&c.MCPCPU, 0, 1024), unit: "cores", def: "0", doc: "Processors of a model's sandbox, 0.01 to MAX_CPU; 0 means as for every request. A client's URL can set less."},
		{name: "MCP_MEMORY_MB", value: integer(&c.MCPMemoryMB, 0, 16<<20), unit: "MiB", def: "0", doc: "Memory of a model's sandbox, 8 to MAX_MEM_MB; 0 means as for every request. A client's URL can set less."},
		{name: "MCP_WORKSPACE_MB", value: integer(&c.MCPWorkspaceMB, 0, 16<<20), unit: "MiB", def: "0", doc: "Size of /workspace in a model's sandbox, up to WORKSPACE_CAP_MB if that is set, otherwise 4096; 0 means as for every request. A client's URL can set less."},
		{name: "MCP_IDLE_TIMEOUT_SEC", value: integer(&c.MCPIdleSec, 0, 31536000), unit: "seconds", def: "0", doc: "Time without activity after which a model's sandbox ends, up to MAX_SESSION_TTL_SEC; 0 means as for every session. A client's URL can set less."},
		{name: "MCP_SESSION_IDLE_SEC", value: integer(&c.MCPSessionIdleSec, 1, 604800), unit: "seconds", def: "900",
			doc: "Time without a request and without an open stream after which an MCP session ends, with its sandboxes, unless they belong to a workflow."},
		{name: "MCP_WAIT_SEC", value: integer(&c.MCPWaitSec, 1, 3600), unit: "seconds", def: "45",
			doc: "How long a call waits for its command before it answers with status running. Most clients wait 60 seconds for a call. A client's URL can set another value."},
		{name: "MCP_MAX_OUTPUT_BYTES", value: integer(&c.MCPMaxOutput, 256, 1<<20), unit: "bytes", def: "24576",
			doc: "Most of each stream that a result holds, from its beginning and its end. The rest can be read separately. A client's URL can set another value."},
	}
}

// checkTool refuses text that cannot be a tool's name. The MCP door, which knows the tools of each mode,
// checks the names.
func checkTool(s string) error {
	if len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("is not the name of a tool")
	}
	return nil
}

// checkModels refuses limits for models under which all their requests would be refused.
func (c *Config) checkModels(bad func(string, ...any)) {
	atMost(c, bad, "MCP_TIMEOUT_SEC", &c.MCPTimeoutSec, "MAX_EXEC_TIMEOUT_SEC", int(c.MaxExecTimeout.Seconds()))
	atMost(c, bad, "MCP_CPU", &c.MCPCPU, "MAX_CPU", c.MaxCPU)
	atMost(c, bad, "MCP_MEMORY_MB", &c.MCPMemoryMB, "MAX_MEM_MB", c.MaxMemMB)
	atMost(c, bad, "MCP_WORKSPACE_MB", &c.MCPWorkspaceMB, "WORKSPACE_CAP_MB, or above 4096 without it", c.MaxLimits().WorkspaceMB)
	atMost(c, bad, "MCP_IDLE_TIMEOUT_SEC", &c.MCPIdleSec, "MAX_SESSION_TTL_SEC", int(c.MaxSessionTTL.Seconds()))
	for _, key := range []struct {
		name         string
		value, least float64
	}{{"MCP_CPU", c.MCPCPU, 0.01}, {"MCP_MEMORY_MB", float64(c.MCPMemoryMB), 8}} {
		if key.value > 0 && key.value < key.least {
			bad("%s is below %v, the least that a sandbox can have", c.origins[Prefix+key.name], key.least)
		}
	}
}
