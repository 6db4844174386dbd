package main

import (
	"runtime/debug"
	"strings"
)

// Set by the linker (see the Makefile), and empty otherwise.
var (
	linkedVersion string
	linkedCommit  string
)

// identify returns the version and the commit of this binary, from the linker or from the build information that Go records
// for go install and go build.
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
