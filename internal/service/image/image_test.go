package image_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/image/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/image"
	"github.com/belljar/belljar/internal/service/placement"
)

var (
	operator = belljar.Caller{ID: "root", Role: belljar.RoleAdmin}
	user     = belljar.Caller{ID: "ann", Role: belljar.RoleUser}
)

const published = "registry.example/team/app:1"

// world is the images of a service over a store in memory.
type world struct {
	*image.Images
	store    *memory.Store
	closed   bool
	full     error
	sessions []string
	denied   int
	events   []event.Event
}

func newWorld(t *testing.T, change func(*image.Options)) *world {
	t.Helper()
	w := &world{store: memory.New()}
	w.store.Publish(published, []byte("files"))
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	policy := admission.DefaultPolicy()
	policy.ImagePull = admission.PullMissing
	o := image.Options{
		Store: w.store, Rules: &admission.Rules{Policy: policy, Images: w.store, Log: slog.New(slog.DiscardHandler)},
		Room:    func(context.Context, string) error { return w.full },
		Users:   func(string) ([]string, []string) { return w.sessions, nil },
		Begin:   func() (func(), bool) { return func() {}, !w.closed },
		Denied:  func(belljar.Caller, error) { w.denied++ },
		Record:  func(e event.Event) { w.events = append(w.events, e) },
		Closing: ctx, Clock: clock.Wall{}, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	w.Images = image.New(o)
	return w
}

func (w *world) pull(t *testing.T) belljar.Image {
	t.Helper()
	got, err := w.As(operator).Pull(t.Context(), belljar.ImagePull{Ref: published}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func wantCode(t *testing.T, what string, err error, code belljar.Code) {
	t.Helper()
	if belljar.CodeOf(err) != code {
		t.Errorf("%s: %v, not %s", what, err, code)
	}
}

// TestUsersOnlyRead: only operators may change images, and each refusal is recorded.
func TestUsersOnlyRead(t *testing.T) {
	w := newWorld(t, nil)
	w.pull(t)
	v := w.As(user)
	_, err := v.Import(t.Context(), "a:1", strings.NewReader("x"), nil)
	wantCode(t, "import", err, belljar.CodeForbidden)
	_, err = v.Tag(t.Context(), published, "mine")
	wantCode(t, "tag", err, belljar.CodeForbidden)
	wantCode(t, "remove", v.Remove(t.Context(), published), belljar.CodeForbidden)
	_, err = v.Prune(t.Context(), belljar.ImagePrune{All: true})
	wantCode(t, "prune", err, belljar.CodeForbidden)
	_, err = v.Pull(t.Context(), belljar.ImagePull{Ref: published, Runtime: "docker"}, nil)
	wantCode(t, "pull by an engine", err, belljar.CodeForbidden)
	if w.denied != 5 {
		t.Errorf("%d refusals recorded", w.denied)
	}
	if got, err := v.Get(t.Context(), published); err != nil || got.Ref != published {
		t.Errorf("%+v, %v", got, err)
	}
	if list, err := v.List(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestRequestsAreChecked(t *testing.T) {
	w := newWorld(t, nil)
	v := w.As(operator)
	_, err := v.Get(t.Context(), "")
	wantCode(t, "get nothing", err, belljar.CodeInvalidRequest)
	_, err = v.Get(t.Context(), "registry.example/none:1")
	wantCode(t, "get a missing image", err, belljar.CodeNotFound)
	_, err = v.Pull(t.Context(), belljar.ImagePull{}, nil)
	wantCode(t, "pull nothing", err, belljar.CodeInvalidRequest)
	_, err = v.Pull(t.Context(), belljar.ImagePull{Ref: "sha256:0123456789abcdef"}, nil)
	wantCode(t, "pull a digest alone", err, belljar.CodeInvalidRequest)
	_, err = v.Tag(t.Context(), "", "name")
	wantCode(t, "tag nothing", err, belljar.CodeInvalidRequest)
	wantCode(t, "remove nothing", v.Remove(t.Context(), ""), belljar.CodeInvalidRequest)
	for _, p := range []belljar.ImagePrune{{}, {UnusedSec: -1}, {KeepBytes: -1}, {UnusedSec: 1e300}} {
		_, err := v.Prune(t.Context(), p)
		wantCode(t, "prune", err, belljar.CodeInvalidRequest)
	}
	if len(w.events) != 0 {
		t.Errorf("%+v", w.events)
	}
}

func TestPull(t *testing.T) {
	w := newWorld(t, nil)
	got := w.pull(t)
	if len(w.events) != 1 || w.events[0].Name != event.ImagePulled || w.events[0].Detail["digest"] != got.Digest || w.events[0].Caller.ID != operator.ID {
		t.Errorf("%+v", w.events)
	}
	if again := w.pull(t); again.Digest != got.Digest || len(w.events) != 1 {
		t.Errorf("an image that is here was pulled again: %+v", w.events)
	}
	w.full = errors.New("the disk is full")
	if _, err := w.As(operator).Pull(t.Context(), belljar.ImagePull{Ref: published, Always: true}, nil); !errors.Is(err, w.full) {
		t.Errorf("%v", err)
	}
	w.full, w.closed = nil, true
	_, err := w.As(operator).Pull(t.Context(), belljar.ImagePull{Ref: published, Always: true}, nil)
	wantCode(t, "while the service closes", err, belljar.CodeRuntimeUnavailable)
}

// TestRemoveInUse: an image that sessions use stays, and the refusal names them.
func TestRemoveInUse(t *testing.T) {
	w := newWorld(t, nil)
	got := w.pull(t)
	end := w.store.Use(got.Digest)
	w.sessions = []string{"s1", "s2"}
	var e *belljar.Error
	err := w.As(operator).Remove(t.Context(), published)
	if !errors.As(err, &e) || e.Code != belljar.CodeConflict || !strings.Contains(e.Message, "s1, s2") || e.Hint == "" {
		t.Fatalf("%+v", err)
	}
	w.sessions = nil
	end()
	if err := w.As(operator).Remove(t.Context(), published); err != nil {
		t.Fatal(err)
	}
	_, err = w.As(operator).Get(t.Context(), published)
	wantCode(t, "after its removal", err, belljar.CodeNotFound)
	if last := w.events[len(w.events)-1]; last.Name != event.ImageRemoved || last.Detail["digest"] != got.Digest {
		t.Errorf("%+v", last)
	}
}

// TestRemoveWaitsForATeardown: an image that only a finished run's sandbox uses is removed once that sandbox is removed.
func TestRemoveWaitsForATeardown(t *testing.T) {
	asked := make(chan struct{}, 100)
	w := newWorld(t, func(o *image.Options) {
		o.Users = func(string) ([]string, []string) {
			asked <- struct{}{}
			return nil, nil
		}
	})
	end := w.store.Use(w.pull(t).Digest)
	removed := make(chan error, 1)
	go func() { removed <- w.As(operator).Remove(context.Background(), published) }()
	<-asked
	end()
	if err := <-removed; err != nil {
		t.Error(err)
	}
}

func TestSweep(t *testing.T) {
	w := newWorld(t, nil)
	w.pull(t)
	if err := w.Sweep(t.Context()); err != nil || len(w.events) != 1 {
		t.Errorf("a sweep without bounds: %v, %+v", err, w.events)
	}
	w = newWorld(t, func(o *image.Options) { o.Keep = 1 })
	got := w.pull(t)
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := w.events[len(w.events)-1]
	if last.Name != event.ImagesPruned || last.Detail["digests"] != got.Digest || last.Count != got.Bytes {
		t.Errorf("%+v", last)
	}
}

func TestImportIsRecorded(t *testing.T) {
	w := newWorld(t, nil)
	_, err := w.As(operator).Import(t.Context(), "mine:1", bytes.NewReader([]byte("content")), nil)
	if len(w.events) != 1 || w.events[0].Name != event.ImageImported || !errors.Is(w.events[0].Err, err) || w.events[0].Took < 0 || w.events[0].Took > time.Minute {
		t.Errorf("%+v, %v", w.events, err)
	}
}

// engine is a runtime whose engine has an image of two repositories, each with a digest of its own.
type engine struct {
	*fake.Runtime
	runtime.Imager
}

func (engine) Image(_ context.Context, ref string) (runtime.Root, error) {
	name, _, _ := strings.Cut(ref, ":")
	if name == "belljar/python" {
		return runtime.Root{}, runtime.ErrNoImage
	}
	return runtime.Root{Ref: ref, Name: "sha256:id", Digest: "sha256:of-" + name}, nil
}

// Pull implements [runtime.Imager].
func (engine) Pull(context.Context, string, func(belljar.ImageProgress)) (runtime.Root, error) {
	return runtime.Root{}, errors.New("the engine was asked")
}

func (engine) Images(context.Context) ([]belljar.Image, error) {
	return []belljar.Image{{Ref: "one:1", Names: []string{"one:1", "two:1"}, Digest: "sha256:of-one"}}, nil
}

// The digest of an engine's image is the one that a request with that name uses.
func TestEngineDigest(t *testing.T) {
	rt := fake.New(fake.Options{Dir: t.TempDir()})
	defer rt.Close()
	w := newWorld(t, func(o *image.Options) { o.Rules.Hosts = placement.Hosts{placement.NewHost(engine{Runtime: rt})} })
	for _, name := range []string{"one", "two"} {
		got, err := w.As(user).Get(t.Context(), name+":1")
		if err != nil || got.Digest != "sha256:of-"+name || got.Ref != "one:1" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// No engine fetches an image of a name that Belljar gives to its own.
func TestEngineFetchesNoneOfOurs(t *testing.T) {
	rt := fake.New(fake.Options{Dir: t.TempDir()})
	defer rt.Close()
	w := newWorld(t, func(o *image.Options) { o.Rules.Hosts = placement.Hosts{placement.NewHost(engine{Runtime: rt})} })
	for _, always := range []bool{false, true} {
		_, err := w.As(operator).Pull(t.Context(), belljar.ImagePull{Ref: "belljar/python", Runtime: "fake", Always: always}, nil)
		wantCode(t, "pull", err, belljar.CodeImageUnavailable)
		if hint := belljar.HintOf(err); !strings.Contains(hint, "belljar image build python") {
			t.Errorf("hint %q", hint)
		}
		if _, err := w.As(operator).Pull(t.Context(), belljar.ImagePull{Ref: "belljar/node", Runtime: "fake", Always: always}, nil); err != nil {
			t.Errorf("one that the engine has: %v", err)
		}
	}
}
