//go:build linux

package security

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// build makes belljar, with the agent embedded, and the probe in dir. It leaves the source tree alone: the agent is put
// into its place by an overlay.
func build(dir string) (belljar, probe string, err error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", "", fmt.Errorf("find the module: %w", err)
	}
	source := strings.TrimSpace(string(root))
	compile := func(name, pkg string, flags ...string) (string, error) {
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
	agent, err := compile("belljar-agent", "./cmd/belljar-agent")
	if err != nil {
		return "", "", err
	}
	place := filepath.Join(source, "cmd/belljar/agent/belljar-agent-linux-"+runtime.GOARCH)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{place: agent}})
	if err != nil {
		return "", "", err
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o644); err != nil {
		return "", "", err
	}
	if belljar, err = compile("belljar", "./cmd/belljar", "-overlay", overlayFile); err != nil {
		return "", "", err
	}
	probe, err = compile("probe", "./test/security/probe")
	return belljar, probe, err
}
