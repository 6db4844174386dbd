//go:build linux

package service_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// strained is a host on which a read of a blob, or the restoration of a sandbox, fails a number of times.
type strained struct {
	*blobs
	reads, restores atomic.Int32
}

func (s *strained) Open(ctx context.Context, k blob.Key, offset int64) (io.ReadCloser, error) {
	r, err := s.blobs.Open(ctx, k, offset)
	if err == nil && s.reads.Add(-1) >= 0 {
		r = io.NopCloser(io.MultiReader(io.LimitReader(r, 100), bad{}))
	}
	return r, err
}

type bad struct{}

func (bad) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: "blob", Err: syscall.EIO}
}

type strainedRuntime struct {
	savingRuntime
	s *strained
}

func (r strainedRuntime) Restore(ctx context.Context, spec runtime.Spec, dir string) (runtime.Sandbox, error) {
	if r.s.restores.Add(-1) >= 0 {
		return nil, &runtime.StepError{Step: runtime.StepSnapshot, Err: &fs.PathError{Op: "open", Path: dir, Err: syscall.EMFILE}}
	}
	return r.savingRuntime.Restore(ctx, spec, dir)
}

// A hibernated session keeps its processes if its state cannot be read for a moment, and wakes with them later.
func TestWakeOfAStrainedHost(t *testing.T) {
	t.Parallel()
	s, shelves := &strained{blobs: newBlobs()}, t.TempDir()
	b := newBench(t, saves(shelves), func(o *service.Options) {
		o.Blobs, o.Runtimes[0] = s, strainedRuntime{o.Runtimes[0].(savingRuntime), s}
	})
	x := b.open()
	b.run(shellIn(x.ID, "variable=kept"))
	for what, fails := range map[string]*atomic.Int32{"a blob that cannot be read": &s.reads, "a sandbox that cannot be restored": &s.restores} {
		b.sleeping(x.ID)
		kept, err := filepath.Glob(filepath.Join(shelves, "*.json")) // without them, the state is read from the blobs
		if err != nil || len(kept) != 1 || os.Remove(kept[0]) != nil {
			t.Fatalf("%v, %v", kept, err)
		}
		fails.Store(1)
		_, err = b.service.As(service.Local()).Files().Stat(b.context(), x.ID, ".")
		if code := belljar.CodeOf(err); err == nil || code == belljar.CodeConflict {
			t.Fatalf("%s: %v", what, err)
		}
		if got := b.state(x.ID, belljar.SessionHibernated).Hibernated; got == nil || !got.Live {
			t.Errorf("%s: %+v", what, got)
		}
		wantText(t, b.run(shellIn(x.ID, "echo $variable $alive; unset alive")).stdout, "kept yes\n")
	}
}

// A request with invalid arguments does not wake its session. A valid one asks its door, which may refuse it, only once the session has woken.
func TestRefusedWithoutWaking(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x, ctx, files := b.open(), b.context(), b.service.As(service.Local()).Files()
	b.sleeping(x.ID)
	early := func() error {
		t.Error("the door is asked about an invalid request")
		return nil
	}
	for what, ask := range map[string]func() error{
		"list": func() error {
			_, err := files.List(ctx, x.ID, belljar.FileQuery{Limit: -1, Ready: early})
			return err
		},
		"search": func() error {
			_, err := files.Search(ctx, x.ID, belljar.FileSearch{Name: "[", Ready: early})
			return err
		},
		"batch": func() error {
			_, err := files.WriteAll(ctx, x.ID, []belljar.FileWrite{{Path: "a"}, {Path: "./a"}})
			return err
		},
		"upload": func() error {
			_, err := b.mine().Upload(ctx, x.ID, belljar.Upload{Dir: "../x"})
			return err
		},
	} {
		if err := ask(); err == nil {
			t.Errorf("%s: no error", what)
		}
		if got, err := b.mine().Get(ctx, x.ID); err != nil || got.State != belljar.SessionHibernated {
			t.Errorf("%s: %s, %v", what, got.State, err)
		}
	}
	full := errors.New("no memory")
	ready := func() error {
		b.state(x.ID, belljar.SessionActive)
		return full
	}
	if _, err := files.List(ctx, x.ID, belljar.FileQuery{Ready: ready}); !errors.Is(err, full) {
		t.Errorf("a list: %v", err)
	}
	b.sleeping(x.ID) // nothing uses it
	if _, err := files.Search(ctx, x.ID, belljar.FileSearch{Name: "*", Ready: ready}); !errors.Is(err, full) {
		t.Errorf("a search: %v", err)
	}
}

// Listing and revoking the previews of a hibernated session does not wake it.
func TestHibernatedPreviews(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *service.Options) { o.Ports.Previews = true })
	ports := b.service.As(service.Local()).Ports()
	x := b.open()
	p, err := ports.Preview(b.context(), x.ID, belljar.PreviewSpec{Port: 8080})
	if err != nil {
		t.Fatal(err)
	}
	b.sleeping(x.ID)
	if list, err := ports.Previews(b.context(), x.ID); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := ports.Revoke(b.context(), x.ID, p.Label); err != nil {
		t.Error(err)
	}
	if got, err := b.mine().Get(b.context(), x.ID); err != nil || got.State != belljar.SessionHibernated {
		t.Errorf("%s, %v", got.State, err)
	}
	if err := b.mine().Delete(b.context(), x.ID); err != nil {
		t.Fatal(err)
	}
	_, err = ports.Previews(b.context(), x.ID)
	refusedAs(t, "of an ended session", err, belljar.CodeConflict)
}
