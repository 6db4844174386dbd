package wire

// AgentConfig is the configuration of an agent. As JSON it is the only argument of belljar-agent.
type AgentConfig struct {
	// ListenFD is an inherited listening Unix socket, for belljar-agent; an embedding program calls Serve.
	ListenFD int `json:"listen_fd,omitempty"`
	// Stdio makes belljar-agent serve the multiplexer on its stdin and stdout instead.
	Stdio bool `json:"stdio,omitempty"`
	// LifelineFD is a descriptor whose end of file ends the agent at once: its creator is gone. 0 is none.
	LifelineFD int `json:"lifeline_fd,omitempty"`
	// CgroupFD is a delegated cgroup2 folder in which every exec gets a folder of its own. 0 is none.
	CgroupFD int `json:"cgroup_fd,omitempty"`
	// LocksFD is the kernel's list of file locks, /proc/locks, which programs cannot read. 0 is none: locks then have no bound.
	LocksFD int `json:"locks_fd,omitempty"`
	// LeaseMS is for how many milliseconds the agent lives without a frame from a host. 0 is for ever.
	LeaseMS int64 `json:"lease_ms,omitempty"`
	// Workspace is the folder that files are served from and commands start in; "" is /workspace. Requests may always
	// call it /workspace.
	Workspace string `json:"workspace,omitempty"`
	// Build is the version of the program, told to hosts.
	Build string `json:"build,omitempty"`
	// Fenced means that the kernel itself refuses what a seccomp filter would, as that of belljar-runsc. belljar-agent makes
	// sure of it.
	Fenced bool `json:"fenced,omitempty"`
	// ExecFilter is a seccomp filter, as the bytes of an array of struct sock_filter, that every command gets right
	// before it is executed. Empty is none.
	ExecFilter []byte `json:"exec_filter,omitempty"`
	// Unscored means that the kernel never kills for memory, so that commands need no score by which it would take them
	// before the agent.
	Unscored bool `json:"unscored,omitempty"`
	// Init means that the process belongs to the agent alone, usually as PID 1: it becomes the foster parent of orphans
	// and reaps every child. An embedding program leaves it false.
	Init bool `json:"init,omitempty"`
	// Lock shows the sandbox's lock file to processes that may read the agent's arguments and not its descriptors.
	Lock string `json:"lock,omitempty"`
}

// KeepConfig is the configuration of a keep, which looks after an agent from outside. As JSON it is the argument of its process. Descriptors are those of the process.
type KeepConfig struct {
	// StreamFD is a listening Unix socket: each of its connections becomes a stream to the agent.
	StreamFD int `json:"stream_fd"`
	// OrderFD is a listening Unix socket for orders: {"order": NAME}. 0 for none.
	OrderFD int `json:"order_fd,omitempty"`
	// ReadyFD is where a [KeepReport] goes, once, when the agent has answered or cannot; it is closed then.
	ReadyFD int `json:"ready_fd"`
	// LastFD is an empty file for the [KeepLast] words. 0 for none.
	LastFD int `json:"last_fd,omitempty"`
	// LifelineFD is a descriptor whose end of file ends the keep. 0 for none.
	LifelineFD int `json:"lifeline_fd,omitempty"`
	// Start is the program, by its path, and its arguments, that makes the sandbox: its standard input and output are
	// the agent's byte stream. It ends with status 0 when the sandbox runs without it.
	Start []string `json:"start"`
	// StartFD is what Start has as descriptor 3. 0 for nothing.
	StartFD int `json:"start_fd,omitempty"`
	// PidFile is where Start writes the number of the process whose end is the sandbox's. "" if it does not.
	PidFile string `json:"pid_file,omitempty"`
	// Orders are the programs that can be ordered, by name.
	Orders map[string][]string `json:"orders,omitempty"`
	// Lock tells the sandbox's lock file to processes that may read its arguments and not its descriptors.
	Lock string `json:"lock,omitempty"`
}

// KeepOrder is what a keep is asked to do, over its second socket; a [KeepReport] answers it.
type KeepOrder struct {
	Name string `json:"order"`
}

// KeepReport is what a keep reports when the agent can be dialled or an order is carried out, or why not.
type KeepReport struct {
	Error string `json:"error,omitempty"`
}

// KeepLast is how a sandbox ended, as its keep saw it.
type KeepLast struct {
	// Code is the exit status of the process in the PidFile, -1 if it is not known; Signal is what killed it, 0 for none.
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// Detail is the last output on standard error, or what is wrong.
	Detail string `json:"detail,omitempty"`
}
