//go:build linux

package keep

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Config is the configuration of a keep, Report its reports, and Last its record of the sandbox's end.
type (
	Config = wire.KeepConfig
	Report = wire.KeepReport
	Last   = wire.KeepLast
)

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
