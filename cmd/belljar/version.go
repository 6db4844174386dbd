package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Set by the linker (see the Makefile), and empty otherwise.
var (
	linkedVersion string
	linkedCommit  string
)

var version, commit = identify(debug.ReadBuildInfo)

// identify returns the version and the commit of this binary: what the linker was given, or what Go recorded in a binary of
// go install or of a plain go build.
func identify(read func() (*debug.BuildInfo, bool)) (version, commit string) {
	version, commit = linkedVersion, linkedCommit
	build, ok := read()
	if !ok {
		build = &debug.BuildInfo{}
	}
	if recorded := build.Main.Version; version == "" && recorded != "(devel)" {
		version = strings.TrimPrefix(recorded, "v")
	}
	if version == "" {
		version = "dev"
	}
	for _, s := range build.Settings {
		if commit == "" && s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	return version, commit
}

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
