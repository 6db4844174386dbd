//go:build linux

package guest

import (
	"encoding/json"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

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
	// LocksFD is the kernel's list of file locks, /proc/locks, which programs cannot read. 0 is none: locks then have no bound.
	LocksFD int `json:"locks_fd,omitempty"`
	// LeaseMS is for how many milliseconds the agent lives without a frame from a host. 0 is for ever.
	LeaseMS int64 `json:"lease_ms,omitempty"`
	// Workspace is the folder that files are served from and commands start in; "" is /workspace. Requests may always
	// call it /workspace.
	Workspace string `json:"workspace,omitempty"`
	// Build is the version of the program, told to hosts.
	Build string `json:"build,omitempty"`
	// Fenced says that the kernel itself refuses what a seccomp filter would, as that of belljar-runsc. belljar-agent makes
	// sure of it.
	Fenced bool `json:"fenced,omitempty"`
	// ExecFilter is a seccomp filter, as the bytes of an array of struct sock_filter, that every command gets right
	// before it is executed. Empty is none.
	ExecFilter []byte `json:"exec_filter,omitempty"`
	// Unscored says that the kernel never kills for memory, so that commands need no score by which it would take them
	// before the agent.
	Unscored bool `json:"unscored,omitempty"`
	// Init says that the process belongs to the agent alone, usually as PID 1: it becomes the foster parent of orphans
	// and reaps every child. An embedding program leaves it false.
	Init bool `json:"init,omitempty"`
}

// ParseConfig reads a configuration.
func ParseConfig(text []byte) (cfg Config, err error) {
	if cfg, ok := plainConfig(text); ok {
		return cfg, nil
	}
	return cfg, json.Unmarshal(text, &cfg)
}

// plainConfig reads a configuration in which there is nothing special.
func plainConfig(text []byte) (cfg Config, ok bool) {
	p := wire.NewPlain(text)
	p.Object(func(key string) {
		switch key {
		case "listen_fd":
			cfg.ListenFD = int(p.Int())
		case "stdio":
			cfg.Stdio = p.Bool()
		case "lifeline_fd":
			cfg.LifelineFD = int(p.Int())
		case "cgroup_fd":
			cfg.CgroupFD = int(p.Int())
		case "locks_fd":
			cfg.LocksFD = int(p.Int())
		case "lease_ms":
			cfg.LeaseMS = p.Int()
		case "workspace":
			cfg.Workspace = p.Text()
		case "build":
			cfg.Build = p.Text()
		case "fenced":
			cfg.Fenced = p.Bool()
		case "unscored":
			cfg.Unscored = p.Bool()
		case "exec_filter":
			cfg.ExecFilter = p.Bytes()
		case "init":
			cfg.Init = p.Bool()
		case "lock": // whose it is; nothing to the agent
			p.Text()
		default:
			p.Odd()
		}
	})
	return cfg, p.Done()
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
