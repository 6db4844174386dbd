package config

func node(c *Config) []row {
	return []row{
		{name: "NODE_MEMORY_MB", value: integer(&c.NodeMemoryMB, 0, 1<<30), unit: "MiB", def: "0",
			doc: "Memory of all native and gVisor sandboxes together, files in memory included, enforced by one cgroup around them; belljar itself is outside. 0 is 85 % of the machine's memory, or of the least limit of the cgroups above belljar's own. Commands without a server take it from the environment. They share one bound, which is only raised while another command's sandbox lives."},
	}
}
