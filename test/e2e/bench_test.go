//go:build linux

package e2e

import (
	"encoding/json"
	"os/exec"
	"testing"
)

// TestBench measures a host once: the report has all parts, and the helpers that stay do not count as left over.
func TestBench(t *testing.T) {
	out, err := exec.Command(built.Belljar, "bench", "--rounds", "1", "--idle", "1", "--crowd", "4", "--json").Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var report struct {
		Timings []struct {
			Name string  `json:"name"`
			P50  float64 `json:"p50_ms"`
		} `json:"timings"`
		Idle struct {
			Agent int64 `json:"agent_pss_bytes"`
		} `json:"idle"`
		Crowd struct {
			Sandboxes int `json:"sandboxes"`
			Left      int `json:"left"`
		} `json:"crowd"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(report.Timings) < 3 || report.Timings[0].P50 <= 0 || report.Idle.Agent <= 0 {
		t.Errorf("not all was measured: %s", out)
	}
	if report.Crowd.Sandboxes != 4 || report.Crowd.Left != 0 {
		t.Errorf("four sandboxes left something: %+v", report.Crowd)
	}
}
