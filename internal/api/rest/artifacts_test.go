package rest

import (
	"testing"

	"github.com/belljar/belljar"
)

// An artifact has a download URL only if it can be downloaded.
func TestArtifactURLs(t *testing.T) {
	for path, has := range map[string]bool{
		"a.txt": true, "d/ä b?#.txt": true, "-rf": true, "..a": true, `"; filename=x`: true,
		"a\nb": false, "\x1b[2J": false, "%2e%2e": false, "%252e%252e/x": false, `..\x`: false,
	} {
		item := new(Door).listed("r", []belljar.Artifact{{Path: path, Size: 1}})[0]
		if got := item.DownloadURL != ""; got != has || item.Path != path {
			t.Errorf("%q: %q", path, item.DownloadURL)
		}
	}
	for _, a := range []belljar.Artifact{{Path: "l", LinkTarget: "/etc/passwd"}, {Path: "s", Skipped: "artifact_cap_exceeded"}} {
		if item := new(Door).listed("r", []belljar.Artifact{a})[0]; item.DownloadURL != "" {
			t.Errorf("%v: %q", a, item.DownloadURL)
		}
	}
}
