//go:build linux

package gvisor

import (
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/runtime"
)

// The error for a snapshot that cannot become a sandbox names the difference.
func TestFitsNamesTheDifference(t *testing.T) {
	was := template{
		GVisor: "v1", Platform: "systrap", Agent: ".agent-1", Image: "host", User: rootfs.User{UID: 1000, GID: 1000}, TmpMB: 64, Inodes: 100, Pids: 10,
		Workspace: runtime.Workspace{Bytes: 1 << 20, Inodes: 100}, Layers: []runtime.Layer{{Name: "pip", Dir: "/somewhere/1"}},
	}
	for want, change := range map[string]func(*template){
		"gVisor v1, and not v2":        func(is *template) { is.GVisor = "v2" },
		"the platform":                 func(is *template) { is.Platform = "kvm" },
		"another program":              func(is *template) { is.Agent = ".agent-2" },
		"the image host, and not x":    func(is *template) { is.Image = "x" },
		"the user":                     func(is *template) { is.User.UID = 7 },
		"1 MiB and 100 inodes":         func(is *template) { is.Workspace.Bytes = 2 << 20 },
		"10 processes, and not 64 MiB": func(is *template) { is.Pids = 11 },
		"other packages":               func(is *template) { is.Layers = nil },
	} {
		is := was
		change(&is)
		if err := fits(was, is); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	again := was
	again.Layers = []runtime.Layer{{Name: "pip", Dir: "/somewhere/2"}}
	if err := fits(was, again); err == nil || !strings.Contains(err.Error(), "packages") || strings.Contains(err.Error(), "/somewhere") {
		t.Errorf("%v", err)
	}
	if err := fits(was, was); err != nil {
		t.Error(err)
	}
}
