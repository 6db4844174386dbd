package box_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
)

// images pulls one image, or refuses or fails to.
type images struct{ refused, failure error }

func (i images) Fetchable(string) error { return i.refused }
func (i images) Fetch(context.Context, belljar.Caller, *placement.Placement) (runtime.Root, error) {
	return runtime.Root{Ref: "fetched"}, i.failure
}

// scripted is a runtime whose Create and Remove are functions.
type scripted struct {
	create func(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error)
	remove func(ctx context.Context, id string) error
}

func (scripted) Name() string { return "scripted" }
func (scripted) Probe(context.Context) (runtime.Capabilities, error) {
	return runtime.Capabilities{Available: true}, nil
}
func (r scripted) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	return r.create(ctx, spec)
}
func (scripted) Attach(context.Context, string) (runtime.Sandbox, error) {
	return nil, runtime.ErrNotFound
}
func (scripted) List(context.Context) ([]string, error)        { return nil, nil }
func (r scripted) Remove(ctx context.Context, id string) error { return r.remove(ctx, id) }

func maker(rt runtime.Runtime) *box.Maker {
	m := &box.Maker{Work: func(f func()) { f() }, AfterFunc: clock.Wall{}.AfterFunc, Log: slog.New(slog.DiscardHandler)}
	if rt != nil {
		m.Hosts = placement.Hosts{placement.NewHost(rt)}
	}
	return m
}

func placed(m *box.Maker) *placement.Placement {
	p := &placement.Placement{Caps: runtime.Capabilities{Available: true, Unpacked: true}, Image: runtime.Root{Ref: "app:1", Digest: "sha256:1"}}
	if m != nil {
		p.Host = m.Hosts[0]
	}
	return p
}

// disks counts the completed openings of disks.
type disks struct{ done int }

func (d *disks) Open(string, *runtime.Workspace) (func(), error) { return func() { d.done++ }, nil }

// TestMakeFetchesARemovedImage: an image that was removed after the admission is pulled again, a bounded number of times.
func TestMakeFetchesARemovedImage(t *testing.T) {
	for name, tt := range map[string]struct {
		missing int // how many times the image is missing
		known   int // how many times an image was pulled
		works   bool
	}{"once": {1, 1, true}, "for ever": {9, 2, false}} {
		t.Run(name, func(t *testing.T) {
			created := 0
			m := maker(scripted{create: func(context.Context, runtime.Spec) (runtime.Sandbox, error) {
				if created++; created <= tt.missing {
					return nil, runtime.ErrNoImage
				}
				return &stub{}, nil
			}})
			m.Images = images{}
			disks := &disks{}
			m.Disks = disks
			p := placed(m)
			p.Workspace.Medium = "disk"
			known := 0
			var made runtime.Sandbox
			b, err := m.Make(t.Context(), box.Order{
				ID: "s", Placement: p, OnImage: func(runtime.Root) { known++ }, Made: func(s runtime.Sandbox) { made = s },
			})
			if known != tt.known || (err == nil) != tt.works || (b != nil) != tt.works || (made != nil) != tt.works {
				t.Fatalf("fetched %d times, box %v, %v", known, b, err)
			}
			if tries := disks.done; tries != 0 && !tt.works || tries != 1 && tt.works {
				t.Errorf("its disk was given up %d times", tries) // if nothing is made, its claim is dropped
			}
			var fetch *box.FetchError
			if err != nil && (!errors.As(err, &fetch) || fetch.Reason().Code != belljar.CodeImageUnavailable) {
				t.Error(err)
			}
		})
	}
}

// A volume that a former sandbox writes to is not damaged: its error does not carry the failed step, whose hint is to repair the image.
func TestMakeOnABusyVolume(t *testing.T) {
	m := maker(scripted{create: func(context.Context, runtime.Spec) (runtime.Sandbox, error) {
		return nil, &runtime.StepError{Step: "mount", Err: runtime.ErrInUse, Hint: "repair it"}
	}})
	m.Disks = &disks{}
	p := placed(m)
	p.Workspace.Medium, p.Workspace.Volume = "disk", "v"
	_, err := m.Make(t.Context(), box.Order{ID: "s", Placement: p, Made: func(runtime.Sandbox) {}})
	var step *runtime.StepError
	if belljar.CodeOf(err) != belljar.CodeConflict || errors.As(err, &step) || !errors.Is(err, runtime.ErrInUse) || belljar.HintOf(err) != "try again later" {
		t.Errorf("%v", err)
	}
}

// TestMakeDoesNotWait: a cancelled start does not wait for its runtime. A sandbox that arrives later is destroyed.
func TestMakeDoesNotWait(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	destroyed := make(chan struct{})
	m := maker(scripted{create: func(context.Context, runtime.Spec) (runtime.Sandbox, error) {
		close(begun)
		<-finish
		return &lateStub{destroyed: destroyed}, nil
	}})
	var work sync.WaitGroup
	m.Work = func(f func()) { work.Go(f) }
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-begun
		cancel(fault.ErrCanceled)
	}()
	_, err := m.Make(ctx, box.Order{ID: "s", Placement: placed(m), Made: func(runtime.Sandbox) { t.Error("it was made") }})
	if !errors.Is(err, fault.ErrCanceled) {
		t.Errorf("%v", err)
	}
	close(finish)
	<-destroyed
	work.Wait()
}

// TestMakeAgain: a sandbox that is made again waits until its cancelled creation has ended, and what came of it is destroyed.
func TestMakeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, finish, destroyed := make(chan struct{}), make(chan struct{}), make(chan struct{})
		made := 0
		m := maker(scripted{create: func(context.Context, runtime.Spec) (runtime.Sandbox, error) {
			if made++; made > 1 {
				select {
				case <-destroyed:
				default:
					t.Error("the first sandbox is still there")
				}
				return &stub{}, nil
			}
			close(begun)
			<-finish
			return &lateStub{destroyed: destroyed}, nil
		}})
		m.Work = func(f func()) { go f() }
		order := box.Order{ID: "s", Placement: placed(m), Made: func(runtime.Sandbox) {}}
		cancelled := func(when <-chan struct{}) {
			t.Helper()
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-when
				synctest.Wait()
				cancel(fault.ErrCanceled)
			}()
			if _, err := m.Make(ctx, order); !errors.Is(err, fault.ErrCanceled) {
				t.Errorf("%v", err)
			}
			<-ctx.Done()
		}
		cancelled(begun)
		cancelled(begun) // while it waits
		go func() {
			synctest.Wait()
			close(finish)
		}()
		if b, err := m.Make(t.Context(), order); err != nil || b == nil || made != 2 {
			t.Errorf("%v, %v after %d", b, err, made)
		}
	})
}

type lateStub struct {
	stub
	destroyed chan struct{}
}

func (s *lateStub) Destroy(context.Context) error {
	close(s.destroyed)
	return nil
}

// TestRemove: a sandbox of a previous process that cannot be removed is left to the reaper.
func TestRemove(t *testing.T) {
	removed := ""
	rt := scripted{remove: func(_ context.Context, id string) error {
		removed = id
		if id == "stuck" {
			return errors.New("busy")
		}
		return nil
	}}
	m := maker(rt)
	suspected := func() bool {
		is, _ := m.Hosts[0].Orphans.Suspected()
		return is
	}
	m.Remove(t.Context(), "scripted", "old")
	if removed != "old" || suspected() {
		t.Errorf("removed %q, suspected %v", removed, suspected())
	}
	m.Remove(t.Context(), "unknown", "other")
	if removed != "old" {
		t.Errorf("a sandbox of another runtime was removed: %q", removed)
	}
	m.Remove(t.Context(), "scripted", "stuck")
	if !suspected() {
		t.Error("no sandbox is suspected")
	}
}
