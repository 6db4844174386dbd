package admission

import (
	"errors"
	"slices"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

// A read-only volume needs a runtime that keeps its sandbox apart from the writer's, unless an operator waives Landlock.
func TestReadOnlyVolumeNeedsLandlock(t *testing.T) {
	weak := claimed{name: "weak", caps: runtime.Capabilities{Available: true, Disk: true, NoShare: runtime.Reason{Detail: "no Landlock", Hint: "boot another"}}}
	apart := claimed{name: "apart", caps: runtime.Capabilities{Available: true, Disk: true}}
	memory := claimed{name: "memory", caps: runtime.Capabilities{Available: true}}
	r := &Rules{}
	for _, c := range []claimed{weak, apart, memory} {
		r.Hosts = append(r.Hosts, placement.NewHost(c))
	}
	for _, c := range []struct {
		on       claimed
		request  Request
		message  string
		suggests []string
	}{
		{weak, Request{Workspace: belljar.Workspace{Volume: "v"}}, "", nil},
		{weak, Request{Workspace: belljar.Workspace{Volume: "v", ReadOnly: true}}, "a volume cannot be read-only with runtime weak: no Landlock", []string{"apart"}},
		{weak, Request{Workspace: belljar.Workspace{Volume: "v", ReadOnly: true}, AllowWeak: []string{runtime.ProtectLandlock}}, "", nil},
		{apart, Request{Workspace: belljar.Workspace{Volume: "v", ReadOnly: true}}, "", nil},
		{memory, Request{Workspace: belljar.Workspace{Volume: "v"}}, "a workspace cannot be on disk with runtime memory: its sandboxes have workspaces in memory only", []string{"weak", "apart"}},
	} {
		p := placement.Placement{Host: placement.NewHost(c.on), Caps: c.on.caps}
		err := r.disk(&p, c.request, 8)
		if c.message == "" {
			if err != nil || p.Workspace.Volume != "v" {
				t.Errorf("%s, %+v: %v, %+v", c.on.name, c.request.Workspace, err, p.Workspace)
			}
			continue
		}
		var refused *belljar.Error
		if !errors.As(err, &refused) || refused.Code != belljar.CodeRuntimeUnavailable || refused.Message != c.message {
			t.Fatalf("%s, %+v: %v", c.on.name, c.request.Workspace, err)
		}
		if got, _ := refused.Details["suggested"].([]string); !slices.Equal(got, c.suggests) {
			t.Errorf("%s: %v is suggested", c.on.name, got)
		}
	}
}
