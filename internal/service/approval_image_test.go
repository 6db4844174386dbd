//go:build linux

package service_test

import (
	"sync/atomic"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// No program of an image is executed before an operator has approved the request: neither to make the image's Go build cache, nor to query
// its tools for the expansions of presets.
func TestApprovalOfAnImage(t *testing.T) {
	t.Parallel()
	var wanted atomic.Int32
	g := newGallery(t, asking("image"), func(o *service.Options) {
		o.Policy.EgressPresets = []string{"pip"}
		o.Runtimes[0] = posing{o.Runtimes[0], o.Runtimes[0].Name(), func(c *runtime.Capabilities) { c.GoCache, c.Relay = true, true }}
		o.GoCache = func(_ runtime.Root, _ string, want bool) string {
			if want {
				wanted.Add(1)
			}
			return ""
		}
	})
	ref, _ := g.hub.Put(t, "own:1", simple())
	if _, err := g.user().Pull(t.Context(), belljar.ImagePull{Ref: ref}, nil); err != nil {
		t.Fatal(err)
	}
	b := g.seen(ann)
	run := b.start(with(of(ref, ""), func(s *belljar.RunSpec) {
		// The program is not found: programs here are the host's, and Go would write files to its home.
		s.Command, s.WorkspaceExec, s.Env = []string{"go", "version"}, true, map[string]string{"PATH": "/nowhere"}
	}))
	b.pending(run.ID)
	if n := wanted.Load(); n != 0 {
		t.Errorf("a run that waits has %d Go build caches made", n)
	}
	_, err := g.service.As(ann).Node().NetworkPresets(t.Context(), ref)
	wantCode(t, "presets of an image that needs an approval", err, belljar.CodePolicyDenied, "needs an approval here: image: "+ref)
	g.rt.mu.Lock()
	made := len(g.rt.roots)
	g.rt.mu.Unlock()
	if made != 0 {
		t.Errorf("%d sandboxes before the approval", made)
	}
	b.approve(run.ID)
	b.follow(run.ID)
	if n := wanted.Load(); n != 1 {
		t.Errorf("a run that begins has %d Go build caches made", n)
	}
}
