package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
)

// versionCommand is belljar version.
type versionCommand struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

type versionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Agent   bool   `json:"agent_embedded"`
}

// Run prints the binary's version and build.
func (v *versionCommand) Run(c *console) error {
	embedded, err := c.machine.Agent()
	if err == nil {
		embedded.Close()
	}
	info := versionInfo{
		Version: c.version, Commit: c.commit, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Agent: err == nil,
	}
	if v.JSON {
		return json.NewEncoder(c.stdout).Encode(info)
	}
	agent := "agent embedded"
	if !info.Agent {
		agent = "no agent embedded"
	}
	if info.Commit == "" {
		info.Commit = "unknown"
	}
	_, err = fmt.Fprintf(c.stdout, "belljar %s, commit %s, %s %s/%s, %s\n",
		info.Version, info.Commit, info.Go, info.OS, info.Arch, agent)
	return err
}
