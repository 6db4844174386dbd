package wire

// AgentConfig is the configuration of an agent. As JSON it is the only argument of belljar-agent.
type AgentConfig struct {
	// ListenFD is an inherited listening Unix socket, for belljar-agent; an embedding program calls Serve.
	ListenFD int `json:"listen_fd,omitempty"`
	// Stdio makes belljar-agent serve the multiplexer on its stdin and stdout instead.
	Stdio bool `json:"stdio,omitempty"`
	// LifelineFD is a descriptor whose end of file ends the agent immediately: its creator has ended. 0 is none.
	LifelineFD int `json:"lifeline_fd,omitempty"`
	// CgroupFD is a delegated cgroup2 folder in which every exec gets a folder of its own. 0 is none.
	CgroupFD int `json:"cgroup_fd,omitempty"`
	// LocksFD is the kernel's list of file locks, /proc/locks, which programs cannot read. 0 is none: locks are then unlimited.
	LocksFD int `json:"locks_fd,omitempty"`
	// LeaseMS is how many milliseconds the agent lives without a frame from a host. 0 is for ever.
	LeaseMS int64 `json:"lease_ms,omitempty"`
	// Workspace is the folder of files and the default directory of commands; "" is /workspace. Requests can always name it
	// /workspace.
	Workspace string `json:"workspace,omitempty"`
	// Secrets is the folder of secrets; "" is /run/secrets.
	Secrets string `json:"secrets,omitempty"`
	// Build is the version of the program, sent to hosts.
	Build string `json:"build,omitempty"`
	// Fenced means that the kernel itself refuses the calls that a seccomp filter would, like that of belljar-runsc.
	// belljar-agent verifies it.
	Fenced bool `json:"fenced,omitempty"`
	// ExecFilter is a seccomp filter, as the bytes of an array of struct sock_filter. Every command gets it right before its
	// execve. Empty is none.
	ExecFilter []byte `json:"exec_filter,omitempty"`
	// Unscored means that the kernel never kills for memory, so commands need no OOM score above the agent's.
	Unscored bool `json:"unscored,omitempty"`
	// Init means that the agent owns the process, usually PID 1: it adopts orphans and reaps every child. An embedding program
	// leaves it false.
	Init bool `json:"init,omitempty"`
	// Lock shows the sandbox's lock file to processes that can read the agent's arguments but not its descriptors.
	Lock string `json:"lock,omitempty"`
	// Relay means that the agent has a network namespace of its sandbox's own, in which it may listen for a relay.
	Relay bool `json:"relay,omitempty"`
}

// KeepConfig is the configuration of a keep, as JSON the argument of its process. Descriptors are those of the process.
type KeepConfig struct {
	// StreamFD is a listening Unix socket: each of its connections becomes a stream to the agent.
	StreamFD int `json:"stream_fd"`
	// OrderFD is a listening Unix socket for orders: {"order": NAME}. 0 is none.
	OrderFD int `json:"order_fd,omitempty"`
	// ReadyFD receives one [KeepReport], when the agent has replied or failed, and is then closed.
	ReadyFD int `json:"ready_fd"`
	// LastFD is an empty file for the [KeepLast] record. 0 is none.
	LastFD int `json:"last_fd,omitempty"`
	// LifelineFD is a descriptor whose end of file ends the keep. 0 for none.
	LifelineFD int `json:"lifeline_fd,omitempty"`
	// Start is the program, by its path, and its arguments, that makes the sandbox. Its standard input and output are the agent's
	// byte stream. It exits with status 0 when the sandbox runs without it.
	Start []string `json:"start"`
	// StartFD becomes descriptor 3 of Start. 0 is none.
	StartFD int `json:"start_fd,omitempty"`
	// PidFile is where Start writes the pid of the sandbox's process; the sandbox ends with that process. "" if it does not.
	PidFile string `json:"pid_file,omitempty"`
	// Orders are the programs for orders, by name.
	Orders map[string][]string `json:"orders,omitempty"`
	// Lock shows the sandbox's lock file to processes that can read the keep's arguments but not its descriptors.
	Lock string `json:"lock,omitempty"`
}

// KeepOrder is a request to a keep, over its second socket; a [KeepReport] answers it.
type KeepOrder struct {
	Name string `json:"order"`
}

// KeepReport reports that the agent can be dialled or an order has succeeded, or the error.
type KeepReport struct {
	Error string `json:"error,omitempty"`
}

// KeepLast is how a sandbox ended, as observed by its keep.
type KeepLast struct {
	// Code is the exit status of the process in the PidFile, -1 if unknown; Signal is the signal that killed it, 0 for none.
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// Detail is the last output on standard error, or the error.
	Detail string `json:"detail,omitempty"`
}
