package config

func models(c *Config) []row {
	const more = " A client's URL can ask for less, a model for less than that."
	return []row{
		{name: "MCP_ENABLED", value: boolean(&c.MCP), def: "true", doc: "Serve the Model Context Protocol at /mcp (docs/mcp.md)."},
		{name: "MCP_MODE", value: oneOf(&c.MCPMode, "", "compute", "code"), def: "",
			doc: "Tools of models: compute is one-shot runs, code a sandbox that lasts, too. Unset, a client's URL chooses (?mode=code), and compute is the default; set to compute, no URL gets code."},
		{name: "MCP_TOOLS", value: list(&c.MCPTools, checkWord), def: "[]",
			doc: "Tools of the mode that are offered, sandbox.run among them; none is all. A client's URL can choose among these."},
		{name: "MCP_IMAGE", value: text(&c.MCPImage, checkImage), doc: "Image of all sandboxes of models. Unset, a client's URL may name one, and else sandbox.run any; DEFAULT_IMAGE is what they get that name none."},
		{name: "MCP_RUNTIME", value: oneOf(&c.MCPRuntime, "", "native", "docker", "gvisor", "firecracker"), def: "", doc: "Runtime of all sandboxes of models. Unset, as MCP_IMAGE."},
		{name: "MCP_TIMEOUT_SEC", value: integer(&c.MCPTimeoutSec, 0, 31536000), unit: "seconds", def: "0", doc: "The most that a model's command may take, and what it gets if it does not say; 0 is as for everybody." + more},
		{name: "MCP_CPU", value: number(&c.MCPCPU, 0, 1024), unit: "cores", def: "0", doc: "Processor time of a model's sandbox; 0 is as for everybody. A client's URL can ask for less."},
		{name: "MCP_MEMORY_MB", value: integer(&c.MCPMemoryMB, 0, 16<<20), unit: "MiB", def: "0", doc: "Memory of a model's sandbox; 0 is as for everybody. A client's URL can ask for less."},
		{name: "MCP_WORKSPACE_MB", value: integer(&c.MCPWorkspaceMB, 0, 16<<20), unit: "MiB", def: "0", doc: "Size of /workspace in a model's sandbox; 0 is as for everybody. A client's URL can ask for less."},
		{name: "MCP_IDLE_TIMEOUT_SEC", value: integer(&c.MCPIdleSec, 0, 31536000), unit: "seconds", def: "0", doc: "A model's sandbox ends when nothing has happened in it for so long; 0 is as for every session. A client's URL can ask for less."},
		{name: "MCP_SESSION_IDLE_SEC", value: integer(&c.MCPSessionIdleSec, 1, 604800), unit: "seconds", def: "900",
			doc: "An MCP session ends when there has been no request of it and no open stream for so long, and its sandboxes with it, unless they are a workflow's."},
		{name: "MCP_WAIT_SEC", value: integer(&c.MCPWaitSec, 1, 3600), unit: "seconds", def: "45",
			doc: "How long a call waits for its command before it answers that it goes on. Most clients give a call 60 seconds. A client's URL can say otherwise."},
		{name: "MCP_MAX_OUTPUT_BYTES", value: integer(&c.MCPMaxOutput, 256, 1<<20), unit: "bytes", def: "24576",
			doc: "Most of each stream that a result holds: its beginning and its end. The rest can be read. A client's URL can say otherwise."},
	}
}
