//go:build linux

package service_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/flock"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/test/registry"
)

// unpacked is a runtime that holds unpacked images but does not use them.
type unpacked struct {
	runtime.Runtime
	mu    sync.Mutex
	roots []runtime.Root
	gone  func(n int) bool // whether the image of the nth sandbox is missing; nil for never
	going func()           // is called before a sandbox is removed; may be nil
	ready *os.File         // the lock of an image that it holds for its pool
}

// Release implements [runtime.Releaser].
func (u *unpacked) Release(_ context.Context, digest string) bool {
	if u.ready == nil || digest == "" {
		return false
	}
	letGo(u.ready)
	u.ready = nil
	return true
}

// hold makes the pool hold an image.
func (u *unpacked) hold(t *testing.T, root image.Root) {
	t.Helper()
	f, err := os.Open(root.Lock)
	if err == nil {
		err = flock.Try(f, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	u.ready = f
}

func (u *unpacked) Probe(ctx context.Context) (runtime.Capabilities, error) {
	caps, err := u.Runtime.Probe(ctx)
	caps.Unpacked = true
	return caps, err
}

func (u *unpacked) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	u.mu.Lock()
	u.roots = append(u.roots, spec.Root)
	n := len(u.roots)
	u.mu.Unlock()
	if u.gone != nil && u.gone(n) {
		return nil, runtime.ErrNoImage
	}
	var lock *os.File
	if spec.Root.Lock != "" {
		var err error
		if lock, err = os.Open(spec.Root.Lock); err == nil {
			err = flock.Try(lock, false)
		}
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(spec.Root.Dir); err != nil {
			lock.Close()
			return nil, runtime.ErrNoImage
		}
	}
	box, err := u.Runtime.Create(ctx, spec)
	if lock == nil || err != nil {
		return box, err
	}
	return &holding{box, lock, u.going}, nil
}

// last returns the image of the sandbox that was made last.
func (u *unpacked) last() runtime.Root {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.roots[len(u.roots)-1]
}

// holding is a sandbox that holds an image.
type holding struct {
	runtime.Sandbox
	lock  *os.File
	going func()
}

func (h *holding) Destroy(ctx context.Context) error {
	if h.going != nil {
		h.going()
	}
	err := h.Sandbox.Destroy(ctx)
	letGo(h.lock)
	return err
}

// letGo unlocks explicitly, since a child that a concurrent test is forking may keep the descriptor slightly longer.
func letGo(lock *os.File) {
	_ = flock.Unlock(lock)
	_ = lock.Close()
}

// gallery is a service with images, and a registry.
type gallery struct {
	*bench
	hub    *registry.Registry
	store  *image.Store
	rt     *unpacked
	images belljar.Images // from the view of an operator
}

func newGallery(t *testing.T, change ...func(*service.Options)) *gallery {
	t.Helper()
	g := &gallery{hub: registry.New(t)}
	g.store = openImages(t, g.hub)
	g.bench = newBench(t, append([]func(*service.Options){func(o *service.Options) {
		g.rt = &unpacked{Runtime: o.Runtimes[0]}
		o.Runtimes[0], o.Images = g.rt, g.store
	}}, change...)...)
	g.images = g.service.As(service.Local()).Images()
	return g
}

func openImages(t *testing.T, hub *registry.Registry) *image.Store {
	t.Helper()
	store, err := image.Open(image.Options{Path: filepath.Join(t.TempDir(), "images"), Registries: []string{hub.Host()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// user returns the images from the view of an ordinary user.
func (g *gallery) user() belljar.Images {
	return g.service.As(belljar.Caller{ID: "alice", Role: belljar.RoleUser}).Images()
}

// of returns a request for a script in an image.
func of(ref, script string) belljar.RunRequest {
	return with(shell(script), func(r *belljar.RunSpec) { r.BaseImage = ref })
}

func wantCode(t *testing.T, what string, err error, code belljar.Code, words ...string) *belljar.Error {
	t.Helper()
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("%s: %v, want %s", what, err, code)
	}
	for _, w := range words {
		if !strings.Contains(e.Message+" "+e.Hint, w) {
			t.Errorf("%s: no word of %q in %q, hint %q", what, w, e.Message, e.Hint)
		}
	}
	return e
}

func simple() registry.Image {
	return registry.Image{Files: map[string]string{"bin/tool": "x", "etc/passwd": "root:x:0:0::/:/bin/sh\napp:x:4321:5432::/:/bin/sh\n"}}
}

// A user with registries that do not respond does not delay other users.
func TestPullsTakeTurns(t *testing.T) {
	g := newGallery(t)
	fine, _ := g.hub.Put(t, "fine:1", simple())
	stuck, let := make(chan string, 16), make(chan struct{})
	t.Cleanup(func() { close(let) })
	g.hub.Meddle(func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/manifests/") || strings.Contains(r.URL.Path, "/fine/") {
			return false
		}
		stuck <- r.URL.Path
		select {
		case <-let:
		case <-r.Context().Done():
		}
		return false
	})
	ctx, cancel := context.WithCancel(t.Context())
	var pulls sync.WaitGroup
	defer pulls.Wait()
	defer cancel()
	alice := g.user()
	for i := range 8 {
		pulls.Go(func() {
			_, err := alice.Pull(ctx, belljar.ImagePull{Ref: fmt.Sprintf("%s/slow%d:1", g.hub.Host(), i)}, nil)
			if belljar.CodeOf(err) != belljar.CodeCanceled {
				t.Errorf("a pull that is given up: %v", err)
			}
		})
	}
	for range 3 {
		<-stuck
	}
	bob := g.service.As(belljar.Caller{ID: "bob", Role: belljar.RoleUser}).Images()
	if got, err := bob.Pull(t.Context(), belljar.ImagePull{Ref: fine}, nil); err != nil || got.Ref != fine {
		t.Errorf("another user's: %+v, %v", got, err)
	}
	if n := len(stuck); n > 0 {
		t.Errorf("one user has %d pulls at a time", 3+n)
	}
}

// An image that is not local is pulled while the run starts, and its configuration applies.
func TestImageIsFetched(t *testing.T) {
	g := newGallery(t)
	i := simple()
	i.Config = map[string]any{"User": "app", "Env": []string{"FROM_IMAGE=yes", "BOTH=image"}, "WorkingDir": "/usr"}
	ref, digest := g.hub.Put(t, "team/app:1", i)
	req := with(of(ref, `pwd; echo $FROM_IMAGE $BOTH $PWD`), func(r *belljar.RunSpec) { r.Env = map[string]string{"BOTH": "request"} })
	r := g.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != "/usr\nyes request /usr\n" || r.ImageDigest != digest || r.BaseImage != ref {
		t.Errorf("printed %q, image %s at %s", r.stdout, r.BaseImage, r.ImageDigest)
	}
	root := g.rt.last()
	if root.UID != 4321 || root.GID != 5432 || root.Dir == "" || root.Lock == "" || root.Ref != ref {
		t.Errorf("the sandbox was made of %+v", root)
	}
	// The second run sends no request to the registry, and has its image's digest immediately.
	asked := g.hub.Asked("")
	first := g.start(of(ref, "true"))
	if first.ImageDigest != digest {
		t.Errorf("accepted with digest %q", first.ImageDigest)
	}
	g.follow(first.ID)
	if now := g.hub.Asked(""); now != asked {
		t.Errorf("the registry was asked %d times more", now-asked)
	}
	page, err := g.List(t.Context(), belljar.RunQuery{ImageDigest: digest})
	if err != nil || page.Total != 2 {
		t.Errorf("%d runs of that digest, %v", page.Total, err)
	}
}

// A missing working directory of an image does not prevent a start. Files are found where they were put.
func TestImageFolder(t *testing.T) {
	g := newGallery(t)
	i := simple()
	i.Config = map[string]any{"WorkingDir": "/no/such/folder"}
	ref, _ := g.hub.Put(t, "app:1", i)
	r := g.run(of(ref, "echo $PWD; touch here"))
	r.want(t, belljar.PhaseCompleted, 0, "")
	if !strings.HasSuffix(r.stdout, "/workspace\n") {
		t.Errorf("PWD is %q", r.stdout)
	}
	x := g.open(func(r *belljar.SessionRequest) { r.BaseImage = ref })
	g.run(inShell(x.ID, "kept=value")).want(t, belljar.PhaseCompleted, 0, "")
	made, err := g.snapshots().Fork(t.Context(), x.ID, belljar.ForkSpec{})
	if err != nil || !made.Shell {
		t.Fatalf("a copy with the shell: %+v, %v", made, err)
	}
	if r := g.run(inShell(made.Sessions[0].ID, "echo $kept")); r.stdout != "value\n" {
		t.Errorf("the copy's shell printed %q, %q", r.stdout, r.stderr)
	}
	i.Config = map[string]any{"WorkingDir": "/usr"}
	ref, _ = g.hub.Put(t, "app:2", i)
	r = g.run(with(of(ref, "cat brought"), func(r *belljar.RunSpec) {
		r.Files = []belljar.InlineFile{{Path: "brought", Content: []byte("along")}}
	}))
	if r.stdout != "along" {
		t.Errorf("a run with files printed %q, %q", r.stdout, r.stderr)
	}
	s := g.open(func(r *belljar.SessionRequest) { r.BaseImage = ref })
	if r := g.run(in(s, "pwd")); r.stdout != "/usr\n" {
		t.Errorf("a run in a session begins in %q", r.stdout)
	}
	if r := g.run(inShell(s.ID, "pwd")); r.Shell == nil || r.Shell.Cwd != belljar.WorkspaceDir || r.stdout == "/usr\n" {
		t.Errorf("the shell begins in %+v, %q", r.Shell, r.stdout)
	}
	inBash := with(in(s, ""), func(r *belljar.RunSpec) { r.Command, r.Context, r.Language, r.Code = nil, "bash", "bash", "pwd" })
	if r := g.run(inBash); r.stdout == "" || r.stdout == "/usr\n" {
		t.Errorf("a context begins in %q, %q", r.stdout, r.stderr)
	}
	if r := g.run(with(in(s, "pwd; ls -a | head -1"), func(r *belljar.RunSpec) { r.Cwd = "." })); r.stdout == "/usr\n" {
		t.Errorf("one that names the workspace begins in %q", r.stdout)
	}
}

// A failed pull fails the run, with the registry's reason. A session is not made.
func TestImageCannotBeFetched(t *testing.T) {
	g := newGallery(t)
	other := simple()
	other.Arch = "s390x"
	g.hub.Put(t, "other:1", other)
	bad := simple()
	g.hub.Put(t, "bad:1", bad)
	g.hub.Meddle(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.Contains(r.URL.Path, "/private/"):
			http.Error(w, `{"errors":[{"code":"DENIED","message":"requested access is denied"}]}`, http.StatusForbidden)
		case strings.Contains(r.URL.Path, "/bad/blobs/"):
			_, _ = w.Write([]byte("not what was promised"))
		default:
			return false
		}
		return true
	})
	for name, word := range map[string]string{"unknown:1": "", "private/app:1": "", "other:1": "linux/", "bad:1": ""} {
		ref := g.hub.Host() + "/" + name
		r := g.run(of(ref, "true"))
		r.want(t, belljar.PhaseFailed, -1, belljar.ReasonImagePullFailed)
		if r.Message == "" || !strings.Contains(r.Message, word) {
			t.Errorf("%s: %q", name, r.Message)
		}
		_, err := g.mine().Create(t.Context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.1", BaseImage: ref}})
		if code := belljar.CodeOf(err); code != belljar.CodeImageUnavailable && code != belljar.CodeImageInvalid {
			t.Errorf("%s: a session: %v", name, err)
		}
	}
	_, err := g.Start(t.Context(), of("No Such", "true")) // an invalid name
	if e := wantCode(t, "no name", err, belljar.CodeInvalidRequest, "python:3.11-slim"); e.Details["field"] != "base_image" {
		t.Errorf("no name: %v", e.Details)
	}
	if len(g.rt.roots) > 0 {
		t.Errorf("sandboxes were made of %v", g.rt.roots)
	}
}

// A registry that does not respond delays a run for its startup timeout, but not after its cancellation.
func TestImageTakesTooLong(t *testing.T) {
	g := newGallery(t)
	ref, digest := g.hub.Put(t, "slow:1", simple())
	mute, _ := g.hub.Put(t, "mute:1", simple())
	release, asked := make(chan struct{}), make(chan struct{}, 16)
	g.hub.Meddle(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") && !strings.Contains(r.URL.Path, "/mute/") {
			return false
		}
		if strings.Contains(r.URL.Path, "/slow/") {
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return false
	})
	r := g.run(with(of(mute, "true"), func(r *belljar.RunSpec) { r.StartupTimeoutSec = 0.3 }))
	r.want(t, belljar.PhaseTimedOut, -1, belljar.ReasonStartupTimeout)
	run := g.start(of(ref, "true"))
	if run.ImageDigest != "" || run.BaseImage != ref {
		t.Errorf("accepted as %s at %q", run.BaseImage, run.ImageDigest)
	}
	<-asked
	if err := g.Cancel(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	g.follow(run.ID).want(t, belljar.PhaseKilled, -1, belljar.ReasonCanceledByUser)

	// Two concurrent runs pull an image once, and one of them may be cancelled.
	one, two := g.start(of(ref, "echo one")), g.start(of(ref, "echo two"))
	<-asked
	if err := g.Cancel(t.Context(), one.ID); err != nil {
		t.Fatal(err)
	}
	g.follow(one.ID)
	close(release)
	if r := g.follow(two.ID); r.stdout != "two\n" || r.ImageDigest != digest {
		t.Errorf("the other one: %+v", r.Run)
	}
}

// If requests may not pull, an image that is not local is refused immediately. Operators can pull it.
func TestImagesAreNotPulled(t *testing.T) {
	g := newGallery(t, func(o *service.Options) { o.Policy = service.DefaultPolicy(); o.Policy.ImagePull = admission.PullNever })
	ref, _ := g.hub.Put(t, "app:1", simple())
	_, err := g.Start(t.Context(), of(ref, "true"))
	e := wantCode(t, "a run", err, belljar.CodeImageUnavailable, "operator")
	if !slices.Contains(e.Details["available"].([]string), "host") {
		t.Errorf("details are %v", e.Details)
	}
	_, err = g.user().Pull(t.Context(), belljar.ImagePull{Ref: ref}, nil)
	wantCode(t, "a user", err, belljar.CodePolicyDenied)
	if _, err := g.images.Pull(t.Context(), belljar.ImagePull{Ref: ref}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := g.user().Pull(t.Context(), belljar.ImagePull{Ref: ref}, nil); err != nil {
		t.Errorf("a user, of what is here: %v", err)
	}
	g.run(of(ref, "true")).want(t, belljar.PhaseCompleted, 0, "")
}

// Only operators change images. All users may list them.
func TestImageRights(t *testing.T) {
	g := newGallery(t)
	ref, digest := g.hub.Put(t, "app:1", simple())
	var progress []belljar.ImageProgress
	got, err := g.user().Pull(t.Context(), belljar.ImagePull{Ref: ref}, func(p belljar.ImageProgress) { progress = append(progress, p) })
	if err != nil || got.Digest != digest || len(progress) == 0 || progress[len(progress)-1].Phase != belljar.ImageDone {
		t.Fatalf("%+v, %v, after %v", got, err, progress)
	}
	u, ctx := g.user(), t.Context()
	_, tag := u.Tag(ctx, ref, "mine")
	_, imported := u.Import(ctx, "mine", strings.NewReader(""), nil)
	_, pruned := u.Prune(ctx, belljar.ImagePrune{All: true})
	_, engine := u.Pull(ctx, belljar.ImagePull{Ref: ref, Runtime: "fake"}, nil)
	for what, err := range map[string]error{"tag": tag, "import": imported, "prune": pruned, "engine": engine, "remove": u.Remove(ctx, ref)} {
		wantCode(t, what, err, belljar.CodeForbidden)
	}
	list, err := u.List(ctx)
	if err != nil || len(list) != 2 || list[0].Ref != ref && list[1].Ref != ref {
		t.Errorf("listed %+v, %v", list, err)
	}
	if _, err := g.images.Tag(ctx, ref, "python:3.11-slim"); err != nil {
		t.Fatal(err)
	}
	if r := g.run(of("python:3.11-slim", "true")); r.ImageDigest != digest || r.BaseImage != "python:3.11-slim" {
		t.Errorf("run of %s at %s", r.BaseImage, r.ImageDigest)
	}
	own, err := g.images.Import(ctx, "belljar/own", strings.NewReader(string(registry.Tar(t, map[string]string{"bin/sh": "own"}))), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = u.Pull(ctx, belljar.ImagePull{Ref: "belljar/own", Always: true}, nil)
	wantCode(t, "in the place of what was brought", err, belljar.CodeForbidden)
	_, err = g.images.Pull(ctx, belljar.ImagePull{Ref: ref, Runtime: "fake"}, nil)
	wantCode(t, "an engine that has none", err, belljar.CodeInvalidRequest)
	_, err = g.images.Prune(ctx, belljar.ImagePrune{})
	wantCode(t, "no bound", err, belljar.CodeInvalidRequest)
	gone, err := g.images.Prune(ctx, belljar.ImagePrune{All: true})
	if err != nil || len(gone.Images) != 2 || !slices.Contains(gone.Images, own.Digest) {
		t.Errorf("pruned %+v, %v", gone, err)
	}
}

// A forbidden image is refused with that reason, also by its digest.
func TestImagesAllowed(t *testing.T) {
	g := newGallery(t, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.AllowedImages = []string{"host", "app:*", "127.0.0.1:*/team/*", "127.0.0.1:*/pinned:1"}
	})
	secret, digest := g.hub.Put(t, "secret:1", registry.Image{Files: map[string]string{"s": "s"}})
	if _, err := g.images.Pull(t.Context(), belljar.ImagePull{Ref: secret}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := g.images.Tag(t.Context(), secret, "secret:2"); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{secret, "secret:2", digest, digest[:20], "host:1", "docker.io/library/host"} {
		_, err := g.Start(t.Context(), of(ref, "true"))
		if code := belljar.CodeOf(err); code != belljar.CodePolicyDenied {
			t.Errorf("a run of %s: %v", ref, err)
		}
		_, err = g.user().Pull(t.Context(), belljar.ImagePull{Ref: ref}, nil)
		if code := belljar.CodeOf(err); code != belljar.CodePolicyDenied {
			t.Errorf("a pull of %s: %v", ref, err)
		}
	}
	if _, err := g.images.Tag(t.Context(), secret, "app:9"); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"host", "app:9", "docker.io/library/app:9", digest} {
		g.run(of(ref, "true")).want(t, belljar.PhaseCompleted, 0, "")
	}
	// A tag in addition to a digest does not change which image it is.
	fine, good := g.hub.Put(t, "pinned:1", simple())
	other, bad := g.hub.Put(t, "pinned:2", registry.Image{Files: map[string]string{"o": "o"}})
	for _, ref := range []string{fine, other} {
		if _, err := g.images.Pull(t.Context(), belljar.ImagePull{Ref: ref}, nil); err != nil {
			t.Fatal(err)
		}
	}
	_, err := g.Start(t.Context(), of(fine+"@"+bad, "true"))
	wantCode(t, "the digest of another tag", err, belljar.CodePolicyDenied, "is allowed: leave the digest out")
	g.run(of(fine+"@"+good, "true")).want(t, belljar.PhaseCompleted, 0, "")
	team, pin := g.hub.Put(t, "team/app:1", simple())
	g.run(of(team+"@"+pin, "true")).want(t, belljar.PhaseCompleted, 0, "")
	g.run(of(team+"@"+digest, "true")).want(t, belljar.PhaseFailed, -1, belljar.ReasonImagePullFailed)
}
