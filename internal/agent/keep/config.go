//go:build linux

package keep

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Config says what a keep works with. As JSON it is the argument of its process. Descriptors are those of the process.
type Config struct {
	// StreamFD is a listening Unix socket: each of its connections becomes a stream to the agent.
	StreamFD int `json:"stream_fd"`
	// OrderFD is a listening Unix socket for orders: {"order": NAME}. 0 for none.
	OrderFD int `json:"order_fd,omitempty"`
	// ReadyFD is where a [Report] goes, once, when the agent has answered or cannot; it is closed then.
	ReadyFD int `json:"ready_fd"`
	// LastFD is an empty file for the [Last] words. 0 for none.
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
	// Lock tells the sandbox's lock file to whoever may read the arguments of the process and not its descriptors.
	Lock string `json:"lock,omitempty"`
}

// ParseConfig reads a configuration.
func ParseConfig(text []byte) (Config, error) {
	var cfg Config
	if err := json.Unmarshal(text, &cfg); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	if cfg.StreamFD <= 2 || cfg.ReadyFD <= 2 {
		return Config{}, errors.New("configuration without stream_fd or ready_fd")
	}
	for _, fd := range []int{cfg.OrderFD, cfg.LastFD, cfg.LifelineFD, cfg.StartFD} {
		if fd < 0 {
			return Config{}, fmt.Errorf("negative descriptor %d", fd)
		}
	}
	if len(cfg.Start) == 0 || cfg.Start[0] == "" {
		return Config{}, errors.New("configuration without a program to start")
	}
	for name, argv := range cfg.Orders {
		if len(argv) == 0 || argv[0] == "" {
			return Config{}, fmt.Errorf("order %q without a program", name)
		}
	}
	return cfg, nil
}

// Report is what a keep says when the agent can be dialled or an order is carried out, or why not.
type Report struct {
	Error string `json:"error,omitempty"`
}

// Last is how a sandbox ended, as its keep saw it.
type Last struct {
	// Code is the exit status of the process in the PidFile, -1 if it is not known; Signal is what killed it, 0 for none.
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// Detail is what was last said on standard error, or what is wrong.
	Detail string `json:"detail,omitempty"`
}
