package config

func gvisor(c *Config) []row {
	return []row{
		{name: "GVISOR_PATH", value: text(&c.GVisorPath),
			doc: "Path of the program belljar-runsc. Default: next to belljar, then in PATH."},
		{name: "GVISOR_PLATFORM", value: oneOf(&c.GVisorPlatform, "systrap", "ptrace", "kvm"), def: "systrap",
			doc: "How gVisor intercepts system calls. ptrace is slow and works almost everywhere; kvm needs a working /dev/kvm."},
	}
}
