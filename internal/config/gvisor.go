package config

func gvisor(c *Config) []row {
	return []row{
		{name: "GVISOR_PATH", value: text(&c.GVisorPath),
			doc: "The program belljar-runsc. Unset, it is looked for beside belljar, and then in PATH."},
		{name: "GVISOR_PLATFORM", value: oneOf(&c.GVisorPlatform, "systrap", "ptrace", "kvm"), def: "systrap",
			doc: "How gVisor gets hold of system calls. ptrace is slow and works nearly everywhere; kvm needs a /dev/kvm that works."},
	}
}
