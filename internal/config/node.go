package config

func node(c *Config) []row {
	return []row{
		{name: "NODE_MEMORY_MB", value: integer(&c.NodeMemoryMB, 0, 1<<30), unit: "MiB", def: "0",
			doc: "Memory of all native and gVisor sandboxes together, files in memory included, enforced by one cgroup around them; belljar itself is outside. 0 means 85 % of the machine's memory, or of the smallest limit of the cgroups above belljar's own. Commands without a server read it from the environment. They share one bound, which is only raised while another command's sandbox lives."},
		{name: "MEMORY_ADMISSION", value: oneOf(&c.MemoryAdmission, "used", "caps"), def: "used",
			doc: "How new sandboxes are admitted to that memory. used: by the memory in use. Above 90 % of the bound, runs wait in the queue, sessions are refused with 503, and sandboxes made in advance are removed; above 95 %, the sandbox that is furthest above its share is ended, with the reason node_out_of_memory. caps: by the sum of memory_mb and the caps of files in memory, so that no sandbox dies for another. With the docker runtime alone, SANDBOX_NODE_MEMORY_MB must be set for that."},
		{name: "MEMORY_OVERCOMMIT", value: number(&c.MemoryOvercommit, 0.1, 100), def: "1",
			doc: "With caps, the factor by which the caps of all sandboxes together may exceed SANDBOX_NODE_MEMORY_MB. Above 1, sandboxes may die for others."},
	}
}
