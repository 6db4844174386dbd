//go:build linux

package service_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/test/registry"
)

// An image stays while a session uses it, even a hibernated one, and the error names the session.
func TestImageInUse(t *testing.T) {
	g := newGallery(t)
	ref, digest := g.hub.Put(t, "app:1", simple())
	s := g.open(func(r *belljar.SessionRequest) { r.BaseImage = ref })
	if s.ImageDigest != digest || s.BaseImage != ref {
		t.Errorf("the session is of %s at %q", s.BaseImage, s.ImageDigest)
	}
	for _, then := range []func(string){g.sleeping, func(id string) { g.in(id, "true") }} {
		e := wantCode(t, "remove", g.images.Remove(t.Context(), ref), belljar.CodeConflict, s.ID)
		if list, _ := e.Details["sessions"].([]string); !slices.Equal(list, []string{s.ID}) {
			t.Errorf("details are %v", e.Details)
		}
		if gone, err := g.images.Prune(t.Context(), belljar.ImagePrune{All: true}); err != nil || len(gone.Images) > 0 {
			t.Errorf("pruned %v, %v", gone, err)
		}
		then(s.ID)
	}
	if err := g.mine().Delete(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if err := g.images.Remove(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	_, err := g.images.Get(t.Context(), ref)
	wantCode(t, "get", err, belljar.CodeNotFound)
	wantCode(t, "remove again", g.images.Remove(t.Context(), ref), belljar.CodeNotFound)
}

// Sandboxes of the pool do not prevent an operator's removal.
func TestImageKeptReady(t *testing.T) {
	g := newGallery(t)
	for name, remove := range map[string]func(ref string) error{
		"rm": func(ref string) error { return g.images.Remove(t.Context(), ref) },
		"prune": func(string) error {
			gone, err := g.images.Prune(t.Context(), belljar.ImagePrune{All: true})
			if len(gone.Images) != 1 {
				t.Errorf("pruned %v", gone.Images)
			}
			return err
		},
	} {
		ref, _ := g.hub.Put(t, "app:1", simple())
		if _, err := g.images.Pull(t.Context(), belljar.ImagePull{Ref: ref}, nil); err != nil {
			t.Fatal(name, err)
		}
		root, err := g.store.Find(t.Context(), ref)
		if err != nil {
			t.Fatal(name, err)
		}
		g.rt.hold(t, root)
		if err := remove(ref); err != nil {
			t.Fatal(name, err)
		}
		_, err = g.images.Get(t.Context(), ref)
		wantCode(t, name, err, belljar.CodeNotFound)
	}
}

// An image that is removed before the sandbox is made is pulled again, with the same content. If that fails, so does the run.
func TestImageIsGoneMeanwhile(t *testing.T) {
	g := newGallery(t)
	ref, digest := g.hub.Put(t, "app:1", simple())
	g.run(of(ref, "true"))
	g.service.WaitIdle() // its sandbox uses the image until its removal, which is after the response
	g.rt.gone = func(n int) bool {
		if n != 2 {
			return false
		}
		if err := g.images.Remove(t.Context(), digest); err != nil {
			t.Error(err)
		}
		g.hub.Put(t, "app:1", registry.Image{Files: map[string]string{"new": "content"}})
		return true
	}
	r := g.run(of(ref, "true"))
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.ImageDigest != digest || len(g.rt.roots) != 3 {
		t.Errorf("it became %s, with %d sandboxes made", r.ImageDigest, len(g.rt.roots))
	}
	g.rt.gone = func(int) bool { return true }
	g.run(of(ref, "true")).want(t, belljar.PhaseFailed, -1, belljar.ReasonImagePullFailed)
}

// An image that belljar image build makes is never fetched, by its name or by an alias of it: Docker Hub could have another of its name. The
// hint has the command that makes it.
func TestImageIsMadeHere(t *testing.T) {
	t.Parallel()
	g := newGallery(t, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.ImagePull, o.Policy.ImageAliases = admission.PullMissing, []string{"python:3.11-slim=belljar/python"}
	})
	const hint = "belljar image build python makes it"
	for _, ref := range []string{"belljar/python", "docker.io/belljar/python:latest", "python:3.11-slim"} {
		_, err := g.Start(t.Context(), of(ref, "true"))
		wantCode(t, ref, err, belljar.CodeImageUnavailable, `image "`+ref+`" is not available`, hint)
	}
	for _, images := range []belljar.Images{g.user(), g.images} {
		_, err := images.Pull(t.Context(), belljar.ImagePull{Ref: "belljar/python", Always: true}, nil)
		wantCode(t, "a pull", err, belljar.CodeImageUnavailable, "does not exist here and is never fetched", hint)
	}
	// One that is removed before the sandbox is made.
	ref, _ := g.hub.Put(t, "app:1", simple())
	if _, err := g.images.Pull(t.Context(), belljar.ImagePull{Ref: ref}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := g.images.Tag(t.Context(), ref, "belljar/python"); err != nil {
		t.Fatal(err)
	}
	g.rt.gone = func(int) bool { return true }
	_, err := g.mine().Create(t.Context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.1", BaseImage: "belljar/python"}})
	wantCode(t, "a session", err, belljar.CodeImageUnavailable, "was removed before the sandbox was made", hint)
}

// An image can be removed as soon as its run has been answered, although the sandbox is removed later.
func TestImageOfARunThatIsOver(t *testing.T) {
	g := newGallery(t)
	ref, _ := g.hub.Put(t, "app:1", simple())
	going, gone := make(chan struct{}), make(chan struct{})
	g.rt.going = sync.OnceFunc(func() { close(going); <-gone })
	g.run(of(ref, "true"))
	<-going
	removed := make(chan error, 1)
	go func() { removed <- g.images.Remove(t.Context(), ref) }()
	close(gone)
	if err := <-removed; err != nil {
		t.Error(err)
	}
}

// A runtime never gets an image that it cannot use, and the error names a runtime that can.
func TestImageOfAnotherRuntime(t *testing.T) {
	g := newGallery(t, func(o *service.Options) {
		o.Runtimes = append(o.Runtimes, renamed{o.Runtimes[0].(*unpacked).Runtime, "plain"})
	})
	ref, digest := g.hub.Put(t, "app:1", simple())
	for range 2 { // first not local, then local
		_, err := g.Start(t.Context(), with(of(ref, "true"), func(r *belljar.RunSpec) { r.Runtime = "plain" }))
		wantCode(t, "plain", err, belljar.CodeImageUnavailable, "plain", "fake")
		if _, err := g.images.Pull(t.Context(), belljar.ImagePull{Ref: ref}, nil); err != nil {
			t.Fatal(err)
		}
	}
	found, err := g.service.As(service.Local()).Node().Runtimes(t.Context())
	if err != nil || len(found.Runtimes) != 2 || !slices.Contains(found.Runtimes[0].DefaultImages, ref+"@"+digest) || !slices.Equal(found.Runtimes[1].DefaultImages, []string{"host"}) {
		t.Errorf("%+v, %v", found, err)
	}
}

// renamed is a runtime with another name.
type renamed struct {
	runtime.Runtime
	name string
}

func (r renamed) Name() string                           { return r.name }
func (r renamed) List(context.Context) ([]string, error) { return nil, nil }

// A session continues with the image that it was made from, even if its name refers to another image, or the image was removed.
func TestImageOutlivesItsProcess(t *testing.T) {
	hub := registry.New(t)
	store := openImages(t, hub)
	w := newWorld(t, func(o *service.Options) {
		o.Images, o.Runtimes[0] = store, &unpacked{Runtime: o.Runtimes[0]}
	})
	i := simple()
	i.Config = map[string]any{"Env": []string{"FROM=first"}, "WorkingDir": "/usr"}
	ref, digest := hub.Put(t, "app:1", i)
	p := w.boot()
	s := p.open(func(r *belljar.SessionRequest) { r.BaseImage = ref })
	gate := filepath.Join(t.TempDir(), "gate")
	run := p.start(of(ref, "echo begun; while [ ! -e "+gate+" ]; do sleep 0.01; done; echo $FROM"))
	p.waitFor(run.ID, "begun")
	p.kill()

	hub.Put(t, "app:1", registry.Image{Files: map[string]string{"new": "content"}})
	if _, err := store.Pull(t.Context(), ref, true, nil); err != nil {
		t.Fatal(err)
	}
	store = openImages(t, hub) // without any image
	next := w.boot()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := next.follow(run.ID); r.stdout != "begun\nfirst\n" || r.ImageDigest != digest {
		t.Errorf("the run printed %q, of image %s", r.stdout, r.ImageDigest)
	}
	got, err := next.mine().Get(t.Context(), s.ID)
	if err != nil || got.ImageDigest != digest || got.BaseImage != ref || got.State != belljar.SessionActive {
		t.Errorf("%+v, %v", got, err)
	}
	if r := next.run(in(s, "echo $FROM; pwd")); r.stdout != "first\n/usr\n" || r.ImageDigest != digest {
		t.Errorf("a run in the session printed %q, of image %s", r.stdout, r.ImageDigest)
	}
	next.end(s)
}

// used is an image store that counts the uses of its images.
type used struct {
	*image.Store
	n int
}

func (u *used) Use(digest string) func() {
	u.n++
	return u.Store.Use(digest)
}

// A hibernated session still uses its image in the next process.
func TestImageOfASessionThatSleeps(t *testing.T) {
	hub := registry.New(t)
	store := &used{Store: openImages(t, hub)}
	w := newWorld(t, func(o *service.Options) { o.Images, o.Runtimes[0] = store, &unpacked{Runtime: o.Runtimes[0]} })
	ref, _ := hub.Put(t, "app:1", simple())
	p := w.boot()
	s := p.open(func(r *belljar.SessionRequest) { r.BaseImage = ref })
	p.sleeping(s.ID)
	p.kill()
	if next := w.boot(); store.n != 2 {
		t.Errorf("%d uses of it, want one in each process", store.n)
	} else {
		next.in(s.ID, "true")
		next.end(s)
	}
}

// A queued run uses its image from its acceptance on, also in the next process.
func TestImageOfARunThatWaits(t *testing.T) {
	hub := registry.New(t)
	store := openImages(t, hub)
	w := newWorld(t, func(o *service.Options) {
		o.Images, o.Runtimes[0], o.Concurrency = store, &unpacked{Runtime: o.Runtimes[0]}, 1
	})
	ref, digest := hub.Put(t, "app:1", registry.Image{Files: map[string]string{"old": ""}, Config: map[string]any{"Env": []string{"FROM=old"}}})
	if _, err := store.Pull(t.Context(), ref, false, nil); err != nil {
		t.Fatal(err)
	}
	p := w.boot()
	gate := filepath.Join(t.TempDir(), "gate")
	first := p.start(shell("echo begun; while [ ! -e " + gate + " ]; do sleep 0.01; done"))
	p.waitFor(first.ID, "begun")
	waits := p.start(of(ref, "echo $FROM"))
	if waits.Phase != belljar.PhaseQueued || waits.ImageDigest != digest {
		t.Fatalf("it is %s, of image %q", waits.Phase, waits.ImageDigest)
	}
	p.kill()
	hub.Put(t, "app:1", registry.Image{Files: map[string]string{"new": ""}, Config: map[string]any{"Env": []string{"FROM=new"}}})
	if _, err := store.Pull(t.Context(), ref, true, nil); err != nil {
		t.Fatal(err)
	}
	next := w.boot()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next.follow(first.ID)
	if r := next.follow(waits.ID); r.stdout != "old\n" || r.ImageDigest != digest || r.BaseImage != ref {
		t.Errorf("it printed %q, of image %s", r.stdout, r.ImageDigest)
	}
}

// Images that are not used are removed after a time that the operator sets.
func TestImagesAreSwept(t *testing.T) {
	g := newGallery(t, func(o *service.Options) { o.ImageKeep = 1 })
	ref, _ := g.hub.Put(t, "app:1", registry.Image{Files: map[string]string{"big": strings.Repeat("x", 4096)}})
	s := g.open(func(r *belljar.SessionRequest) { r.BaseImage = ref })
	if err := g.service.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.images.Get(t.Context(), ref); err != nil {
		t.Errorf("one that is used: %v", err)
	}
	if err := g.mine().Delete(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if err := g.service.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := g.images.Get(t.Context(), ref)
	wantCode(t, "one that is not", err, belljar.CodeNotFound)
}

// Terminals, files in a language and the commands of a template start in the workspace, even if their image has another folder.
func TestImageFolderOfTerminalsAndTemplates(t *testing.T) {
	g := newGallery(t)
	i := simple()
	i.Config = map[string]any{"WorkingDir": "/usr"}
	ref, _ := g.hub.Put(t, "app:1", i)
	const here = "case $(pwd) in */workspace) ;; *) exit 3; esac"
	g.template(belljar.TemplateSpec{Name: "t", BaseImage: ref, Run: []string{here, "mkdir sub"}, Start: []string{here}})
	if r := g.run(with(onTemplate("t", "pwd"), func(r *belljar.RunSpec) { r.Cwd = "sub" })); !strings.HasSuffix(r.stdout, "/workspace/sub\n") {
		t.Errorf("a run that names a folder: %q, %+v", r.stdout, r.Run)
	}
	s := g.open(func(r *belljar.SessionRequest) { r.BaseImage, r.Template = "", "t" })
	if end := g.watch(g.terminal(s.ID, "sh", "-c", here+"; echo $PWD >where").ID).end(); end.ExitCode != 0 {
		t.Errorf("%+v", end)
	}
	if r := g.run(with(in(s, "cat where"), func(r *belljar.RunSpec) { r.Cwd = "." })); !strings.HasSuffix(r.stdout, "/workspace\n") {
		t.Errorf("PWD is %q", r.stdout)
	}
	g.run(with(in(s, "echo echo found >script"), func(r *belljar.RunSpec) { r.Cwd = "." })).want(t, belljar.PhaseCompleted, 0, "")
	if r := g.run(with(in(s, ""), func(r *belljar.RunSpec) { r.Command, r.Language = []string{"script"}, "bash" })); r.stdout != "found\n" {
		t.Errorf("a session's file in a language printed %q, %q", r.stdout, r.stderr)
	}
}
