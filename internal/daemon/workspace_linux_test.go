package daemon

import (
	"testing"
	"time"

	"github.com/belljar/belljar/internal/config"
)

// The mode local keeps polls for Git's state, which are runs, for minutes and within a bound: its records and logs are in memory.
func TestLocalForgetsSoon(t *testing.T) {
	for env, logMB := range map[string]int{"SANDBOX_QUOTA_LOG_MB=": 256, "SANDBOX_QUOTA_LOG_MB=0": 256, "SANDBOX_QUOTA_LOG_MB=64": 64} {
		cfg, err := config.Load(config.Sources{Env: []string{env}})
		if err != nil {
			t.Fatal(err)
		}
		if o := localOptions(&cfg); o.Keep <= 0 || o.Keep > 10*time.Minute || o.Quota.LogMB != logMB {
			t.Errorf("%s: kept for %v, at most %d MiB of logs", env, o.Keep, o.Quota.LogMB)
		}
	}
}
