package main

import (
	"runtime/debug"
	"testing"
)

func TestIdentify(t *testing.T) {
	recorded := func(version string, settings ...debug.BuildSetting) func() (*debug.BuildInfo, bool) {
		return func() (*debug.BuildInfo, bool) {
			return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}, true
		}
	}
	nothing := func() (*debug.BuildInfo, bool) { return nil, false }
	for _, test := range []struct {
		name            string
		read            func() (*debug.BuildInfo, bool)
		version, commit string
	}{
		{"go install", recorded("v1.2.3"), "1.2.3", ""},
		{"go build in a checkout", recorded("(devel)", debug.BuildSetting{Key: "vcs.revision", Value: "abc"}), "dev", "abc"},
		{"a build without a record", nothing, "dev", ""},
		{"a record without a version", recorded(""), "dev", ""},
	} {
		version, commit := identify(test.read)
		if version != test.version || commit != test.commit {
			t.Errorf("%s: %q and %q, want %q and %q", test.name, version, commit, test.version, test.commit)
		}
	}
}
