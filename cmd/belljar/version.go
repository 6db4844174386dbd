package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker (see the Makefile). A build without them still tells its commit where Go recorded one.
var (
	version = "dev"
	commit  = ""
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

// Run prints what this binary is.
func (v *versionCommand) Run(c *console) error {
	embedded, err := c.agent()
	if err == nil {
		embedded.Close()
	}
	info := versionInfo{
		Version: version, Commit: commit, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Agent: err == nil,
	}
	if build, ok := debug.ReadBuildInfo(); ok && info.Commit == "" {
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				info.Commit = s.Value
			}
		}
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
