// Package build makes the programs that black-box tests run, from the source tree they stand in.
package build

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Programs are paths of what was made.
type Programs struct {
	Agent   string
	Belljar string // with the agent embedded
	Probe   string // the attacker's tool of test/security
	Soak    string // the many runs of test/e2e
}

// Into builds into dir and leaves the source tree alone: the agent is put into its place by an overlay.
func Into(dir string) (Programs, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return Programs{}, fmt.Errorf("find the module: %w", err)
	}
	source := strings.TrimSpace(string(root))
	var p Programs
	if p.Agent, err = compile(source, dir, "belljar-agent", "./cmd/belljar-agent"); err != nil {
		return Programs{}, err
	}
	place := filepath.Join(source, "cmd/belljar/agent/belljar-agent-linux-"+runtime.GOARCH)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{place: p.Agent}})
	if err != nil {
		return Programs{}, err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		return Programs{}, err
	}
	if p.Belljar, err = compile(source, dir, "belljar", "./cmd/belljar", "-overlay", file); err != nil {
		return Programs{}, err
	}
	if p.Probe, err = compile(source, dir, "probe", "./test/security/probe"); err != nil {
		return Programs{}, err
	}
	p.Soak, err = compile(source, dir, "soak", "./test/e2e/soak")
	return p, err
}

func compile(source, dir, name, pkg string, flags ...string) (string, error) {
	out := filepath.Join(dir, name)
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", out}, flags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if report, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, report)
	}
	return out, nil
}
