//go:build linux

package guest

import "time"

// Config says what an agent works with. As JSON it is the only argument of belljar-agent.
type Config struct {
	// ListenFD is an inherited listening Unix socket, for belljar-agent; an embedding program calls Serve.
	ListenFD int `json:"listen_fd,omitempty"`
	// Stdio makes belljar-agent serve the multiplexer on its stdin and stdout instead.
	Stdio bool `json:"stdio,omitempty"`
	// LifelineFD is a descriptor whose end of file ends the agent at once: its creator is gone. 0 is none.
	LifelineFD int `json:"lifeline_fd,omitempty"`
	// CgroupFD is a delegated cgroup2 folder in which every exec gets a folder of its own. 0 is none.
	CgroupFD int `json:"cgroup_fd,omitempty"`
	// LeaseMS is for how many milliseconds the agent lives without a frame from a host. 0 is for ever.
	LeaseMS int64 `json:"lease_ms,omitempty"`
	// Workspace is the folder that files are served from and commands start in; "" is /workspace. Requests may always
	// call it /workspace.
	Workspace string `json:"workspace,omitempty"`
	// Build is the version of the program, told to hosts.
	Build string `json:"build,omitempty"`
	// ExecFilter is a seccomp filter, as the bytes of an array of struct sock_filter, that every command gets right
	// before it is executed. Empty is none.
	ExecFilter []byte `json:"exec_filter,omitempty"`
	// Init says that the process belongs to the agent alone, usually as PID 1: it becomes the foster parent of orphans
	// and reaps every child. An embedding program leaves it false.
	Init bool `json:"init,omitempty"`
}

// workspaceName is what requests call the workspace, wherever it lies.
const workspaceName = "/workspace"

// Bounds of what one agent takes on.
const (
	maxStreams = 1024
	maxExecs   = 1024 // running, and finished but not forgotten
)

// drainTime is how long output is awaited from pipes that a survivor holds open.
const drainTime = 100 * time.Millisecond
