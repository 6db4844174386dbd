package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/belljar/belljar"
)

func checkRuntime(s string) error {
	if !slices.Contains([]string{"native", "gvisor", "docker"}, s) {
		return errors.New("is not native, gvisor or docker")
	}
	return nil
}

func checkTrust(s string) error {
	level, isolation, _ := strings.Cut(s, "=")
	if !slices.Contains(belljar.TrustLevels(), belljar.TrustLevel(level)) || !slices.Contains(belljar.Isolations(), isolation) {
		return errors.New("must be level=isolation: trusted, standard or untrusted, and namespace, user_space_kernel or microvm")
	}
	return nil
}

// Trust returns SANDBOX_TRUST_LEVELS as a map from level to isolation.
func (c *Config) Trust() map[belljar.TrustLevel]string {
	levels := map[belljar.TrustLevel]string{}
	for _, pair := range c.TrustLevels {
		level, isolation, _ := strings.Cut(pair, "=")
		levels[belljar.TrustLevel(level)] = isolation
	}
	return levels
}
