package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/belljar/belljar"
)

// all combines checks; the first failure counts.
func all(checks ...func(result) error) func(result) error {
	return func(r result) error {
		for _, check := range checks {
			if err := check(r); err != nil {
				return err
			}
		}
		return nil
	}
}

// where selects a check by whether this host enforces the limit with a cgroup. Root always can, an ordinary user only on some
// hosts.
func where(limit string, enforced, not func(result) error) func(result) error {
	return func(r result) error {
		if strings.HasPrefix(r.LimitsEnforced[limit], "cgroup") {
			return enforced(r)
		}
		return not(r)
	}
}

func completed(r result) error { return ended(belljar.PhaseCompleted, "")(r) }

func ended(phase belljar.Phase, reason belljar.Reason) func(result) error {
	return func(r result) error {
		if r.Phase != phase || r.ReasonCode != reason {
			return fmt.Errorf("ended %s %s (%s), must end %s %s", r.Phase, r.ReasonCode, r.Message, phase, reason)
		}
		return nil
	}
}

func exits(code int) func(result) error {
	return func(r result) error {
		if r.ExitCode == nil || *r.ExitCode != code {
			return fmt.Errorf("has the wrong exit code, must be %d", code)
		}
		return nil
	}
}

func prints(text string) func(result) error {
	return func(r result) error { return contains("stdout", r.Stdout, text) }
}

func contains(stream, got, want string) error {
	if !strings.Contains(got, want) {
		return fmt.Errorf("%s must contain %q, is %q", stream, want, tail(got))
	}
	return nil
}

// truncated checks that the log was cut exactly at its limit.
func truncated(r result) error {
	most := belljar.DefaultLimits().LogBytes
	if !r.Truncated || int64(len(r.Stdout)) > most {
		return fmt.Errorf("log of %d bytes must be cut at %d", len(r.Stdout), most)
	}
	return nil
}

// bounded checks that disk.py wrote no more than the size of its file systems.
func bounded(r result) error {
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	var total int
	if _, err := fmt.Sscanf(lines[len(lines)-1], "total %d MiB", &total); err != nil {
		return fmt.Errorf("last line %q: %w", lines[len(lines)-1], err)
	}
	if total < 64 || total > 64+4*64 {
		return fmt.Errorf("wrote %d MiB", total)
	}
	return nil
}

// artifact checks the files that report.py left in out.
func artifact(out string) error {
	raw, err := os.ReadFile(filepath.Join(out, "stats.json"))
	if err != nil {
		return err
	}
	var stats struct {
		Orders int     `json:"orders"`
		Total  float64 `json:"total"`
	}
	if err := json.Unmarshal(raw, &stats); err != nil {
		return err
	}
	if stats.Orders != 120 || stats.Total != 12758.05 {
		return fmt.Errorf("stats.json reports %d orders and %.2f in total", stats.Orders, stats.Total)
	}
	_, err = os.Stat(filepath.Join(out, "report.md"))
	return err
}

// tail returns the end of a text, for a message.
func tail(s string) string {
	const most = 200
	if len(s) > most {
		return "…" + strings.ToValidUTF8(s[len(s)-most:], "")
	}
	return s
}
