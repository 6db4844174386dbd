//go:build linux

package guest

import (
	"encoding/json"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Config is the configuration of an agent.
type Config = wire.AgentConfig

// ParseConfig reads a configuration.
func ParseConfig(text []byte) (cfg Config, err error) {
	if cfg, ok := plainConfig(text); ok {
		return cfg, nil
	}
	return cfg, json.Unmarshal(text, &cfg)
}

// plainConfig parses a configuration with [wire.Plain].
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
		case "secrets":
			cfg.Secrets = p.Text()
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
		case "lock":
			cfg.Lock = p.Text()
		case "relay":
			cfg.Relay = p.Bool()
		default:
			p.Reject()
		}
	})
	return cfg, p.Done()
}

// Limits of one agent.
const (
	maxStreams = 2 * wire.MaxCarried // of which half may carry connections
	maxExecs   = 1024                // running, and finished but not forgotten
)

// drainTime is how long the agent waits for output from pipes that a survivor holds open.
const drainTime = 100 * time.Millisecond
