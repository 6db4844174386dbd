//go:build linux

package service_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/test/tier"
)

// fuse kills a process before or after one of its persistent effects.
type fuse struct {
	mu    sync.Mutex
	left  int // effects and ends of effects until the kill; less than 0 for none
	blown bool
	kill  func()
}

func (f *fuse) step() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.blown && f.left == 0 {
		f.blown = true
		f.kill()
	}
	f.left--
	return f.blown
}

func (f *fuse) around(do func() error) error {
	if f.step() {
		return errDead
	}
	err := do()
	if f.step() {
		return errDead
	}
	return err
}

// wire routes all persistent effects of a process through the fuse.
func (f *fuse) wire(o *service.Options) {
	o.Blobs, o.Store = fusedBlobs{o.Blobs, f}, fusedStore{o.Store, f}
	o.Runtimes = []runtime.Runtime{fusedRuntime{o.Runtimes[0], f}}
}

type fusedBlobs struct {
	blob.Store
	fuse *fuse
}

func (b fusedBlobs) Put(ctx context.Context, k blob.Key, r io.Reader) (info blob.Info, err error) {
	err = b.fuse.around(func() error { info, err = b.Store.Put(ctx, k, r); return err })
	return info, err
}

func (b fusedBlobs) Sync(ctx context.Context, user, id string) error {
	return b.fuse.around(func() error { return b.Store.Sync(ctx, user, id) })
}

func (b fusedBlobs) Delete(ctx context.Context, user, id string) error {
	return b.fuse.around(func() error { return b.Store.Delete(ctx, user, id) })
}

type fusedStore struct {
	store.Store
	fuse *fuse
}

func (s fusedStore) Snapshots() store.Snapshots { return fusedSnapshots{s.Store.Snapshots(), s.fuse} }
func (s fusedStore) Sessions() store.Sessions   { return fusedSessions{s.Store.Sessions(), s.fuse} }

func (s fusedStore) Templates() store.Templates { return fusedTemplates{s.Store.Templates(), s.fuse} }

type fusedTemplates struct {
	store.Templates
	fuse *fuse
}

func (s fusedTemplates) Put(ctx context.Context, x store.Template) error {
	return s.fuse.around(func() error { return s.Templates.Put(ctx, x) })
}

func (s fusedTemplates) Delete(ctx context.Context, owner, name string) error {
	return s.fuse.around(func() error { return s.Templates.Delete(ctx, owner, name) })
}

type fusedSnapshots struct {
	store.Snapshots
	fuse *fuse
}

func (s fusedSnapshots) Insert(ctx context.Context, x belljar.Snapshot) error {
	return s.fuse.around(func() error { return s.Snapshots.Insert(ctx, x) })
}

func (s fusedSnapshots) Delete(ctx context.Context, id string) (last bool, err error) {
	err = s.fuse.around(func() error { last, err = s.Snapshots.Delete(ctx, id); return err })
	return last, err
}

type fusedSessions struct {
	store.Sessions
	fuse *fuse
}

func (s fusedSessions) Insert(ctx context.Context, row store.Session, key *store.Key) (prior *store.Key, err error) {
	err = s.fuse.around(func() error { prior, err = s.Sessions.Insert(ctx, row, key); return err })
	return prior, orClosed(err)
}

func (s fusedSessions) Update(ctx context.Context, row store.Session) error {
	return orClosed(s.fuse.around(func() error { return s.Sessions.Update(ctx, row) }))
}

type fusedRuntime struct {
	runtime.Runtime
	fuse *fuse
}

func (r fusedRuntime) Create(ctx context.Context, spec runtime.Spec) (box runtime.Sandbox, err error) {
	err = r.fuse.around(func() error { box, err = r.Runtime.Create(ctx, spec); return err })
	return box, err
}

// TestPlainSnapshotKilled kills a process after every effect of an operation, and in make soak also before it. The next process finds
// a consistent state: readable snapshots, no orphaned bytes or sandboxes, and usable sessions.
func TestPlainSnapshotKilled(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(p *process, session, snapshot string) error{
		"save": func(p *process, session, _ string) error {
			_, err := p.snapshots().Make(p.context(), session, belljar.SnapshotSpec{})
			return err
		},
		"remove": func(p *process, _, snapshot string) error { return p.snapshots().Remove(p.context(), snapshot) },
		"restore": func(p *process, _, snapshot string) error {
			spec := belljar.SessionSpec{SpecVersion: "1.0", BaseImage: "host", Snapshot: snapshot}
			_, err := p.mine().Create(p.context(), belljar.SessionRequest{SessionSpec: spec})
			return err
		},
		"fork": func(p *process, session, _ string) error {
			_, err := p.snapshots().Fork(p.context(), session, belljar.ForkSpec{Count: 2})
			return err
		},
		"template": func(p *process, _, snapshot string) error {
			_, err := p.templates().Build(p.context(), belljar.TemplateSpec{Name: "t", BaseImage: "host", Snapshot: snapshot, Run: []string{"echo new >built"}})
			return err
		},
		"template removed": func(p *process, _, _ string) error { return p.templates().Remove(p.context(), "t", false) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A kill before an effect leaves the same state as one after the previous effect.
			for n := tier.Pick(1, 0); ; n += tier.Pick(2, 1) {
				dir := filepath.Join(t.TempDir(), "shelf")
				w, f := newWorld(t, unpacking(dir)), &fuse{left: -1}
				p := w.boot(f.wire)
				x := p.open()
				p.in(x.ID, "echo text >file; touch $(seq 60)")
				made, err := p.snapshots().Make(p.context(), x.ID, belljar.SnapshotSpec{})
				if err != nil {
					t.Fatal(err)
				}
				p.in(x.ID, "echo more >other")
				if strings.HasPrefix(name, "template") {
					p.template(belljar.TemplateSpec{Name: "t", BaseImage: "host", Snapshot: made.ID, Run: []string{"echo old >built"}})
				}
				f.mu.Lock()
				f.left, f.kill = n, p.kill
				f.mu.Unlock()
				err = do(p, x.ID, made.ID)
				f.mu.Lock()
				blown := f.blown
				f.left = -1
				f.mu.Unlock()
				if !blown {
					if err != nil {
						t.Errorf("not killed: %v", err)
					}
					if n < 2 {
						t.Errorf("%s had no effect", name)
					}
				} else {
					p = w.boot()
					checkWhole(t, w, p, n)
				}
				endAll(t, p, dir)
				if !blown {
					return
				}
			}
		})
	}
}

// checkWhole checks that the state after a kill is consistent.
func checkWhole(t *testing.T, w *world, p *process, n int) {
	t.Helper()
	if err := p.service.Sweep(p.context()); err != nil {
		t.Errorf("killed at %d: %v", n, err)
	}
	page, err := p.snapshots().List(p.context(), belljar.SnapshotQuery{})
	if err != nil {
		t.Fatal(err)
	}
	templates, err := p.templates().List(p.context())
	if err != nil {
		t.Fatal(err)
	}
	owned := 0
	for _, x := range templates {
		owned += 2
		got := p.run(with(shell("cat file built"), func(r *belljar.RunSpec) { r.BaseImage, r.Template = "", x.Name }))
		if want := map[string]string{"new": "text\nold\n", "changed": "text\nnew\n"}[x.Reason]; got.stdout != want {
			t.Errorf("killed at %d: a run of template %+v has %q", n, x, got.stdout)
		}
	}
	stored := map[string]int64{}
	var kept int64
	for _, s := range page.Items {
		if s.Kind == "template" {
			owned--
		}
		if err := p.snapshots().Export(p.context(), s.ID, io.Discard); err != nil {
			t.Errorf("killed at %d: %s: %v", n, s.ID, err)
		}
		if stored[s.Digest] == 0 {
			kept += s.StoredBytes
		}
		stored[s.Digest] = s.StoredBytes
	}
	if owned != 0 {
		t.Errorf("killed at %d: templates lack %d snapshots", n, owned)
	}
	if w.blobs.count() != len(stored) || p.kept() != kept {
		t.Errorf("killed at %d: %d blobs of %d digests, %d bytes kept of %d", n, w.blobs.count(), len(stored), p.kept(), kept)
	}
	sessions, err := p.mine().List(p.context(), belljar.SessionQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sessions.Items {
		if got := p.in(s.ID, "cat file"); got.stdout != "text\n" {
			t.Errorf("killed at %d: session %s has %q", n, s.ID, got.stdout)
		}
	}
	p.until(func() bool { // orphans are removed in the background
		boxes, err := w.runtime().List(p.context())
		return err == nil && len(boxes) == len(sessions.Items)
	})
}

// endAll ends all sessions, removes all templates and snapshots, and checks that none of them stays unpacked.
func endAll(t *testing.T, p *process, unpacked string) {
	t.Helper()
	sessions, err := p.mine().List(p.context(), belljar.SessionQuery{})
	if err != nil {
		t.Fatal(err)
	}
	p.end(sessions.Items...)
	templates, err := p.templates().List(p.context())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range templates {
		if err := p.templates().Remove(p.context(), x.Name, false); err != nil {
			t.Error(err)
		}
	}
	saved, err := p.snapshots().List(p.context(), belljar.SnapshotQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range saved.Items {
		if err := p.snapshots().Remove(p.context(), s.ID); err != nil {
			t.Error(err)
		}
	}
	p.until(func() bool {
		left, err := os.ReadDir(unpacked)
		return len(left) == 0 && (err == nil || errors.Is(err, os.ErrNotExist))
	})
}
