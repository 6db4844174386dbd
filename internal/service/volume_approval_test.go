//go:build linux

package service_test

import (
	"os"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// Approving a request does not make a volume that was removed meanwhile, unless the request has its size, nor use one of another size.
func TestVolumeChangesBeforeApproval(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBench(t, asking("source=rest"), func(o *service.Options) {
		o.Runtimes = []runtime.Runtime{claiming{o.Runtimes[0], func(caps *runtime.Capabilities) { caps.Disk = true }}}
		o.Volumes = service.VolumeOptions{Dir: dir, MB: 50, Make: func(path string, _, _ int64) error { return os.WriteFile(path, nil, 0o600) }}
	}).seen(ann)
	ctx, volumes, sessions := b.context(), b.service.As(ann).Volumes(), b.service.As(ann).Sessions()
	for name, start := range map[string]func(w belljar.Workspace) string{
		"run": func(w belljar.Workspace) string {
			return b.start(with(shell("true"), func(s *belljar.RunSpec) { s.Workspace = w })).ID
		},
		"session": func(w belljar.Workspace) string {
			req := spec()
			req.Workspace = w
			x, err := sessions.Create(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			return x.ID
		},
	} {
		create := func(mb int) {
			t.Helper()
			if _, err := volumes.Create(ctx, belljar.VolumeSpec{Name: name, MB: mb}); err != nil {
				t.Fatal(err)
			}
		}
		remove := func() {
			t.Helper()
			if err := volumes.Remove(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		refused := func(id string, want belljar.Code) {
			t.Helper()
			_, err := b.decide(id, belljar.DecisionApprove, "")
			refusedAs(t, name, err, want)
		}
		create(10)
		id, sized := start(belljar.Workspace{Volume: name}), start(belljar.Workspace{Volume: name, MB: 10})
		remove()
		refused(id, belljar.CodeNotFound)
		if v, err := volumes.Get(ctx, name); belljar.CodeOf(err) != belljar.CodeNotFound {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		create(20)
		refused(id, belljar.CodeConflict)
		refused(sized, belljar.CodeConflict)
		remove()
		b.approve(sized) // makes it
		if v, err := volumes.Get(ctx, name); err != nil || v.MB != 10 {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}
