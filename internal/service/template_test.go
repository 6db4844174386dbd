//go:build linux

package service_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/service/admission"
)

func (b *bench) templates() belljar.Templates { return b.service.As(service.Local()).Templates() }

func (b *bench) template(spec belljar.TemplateSpec) belljar.Template {
	b.t.Helper()
	made, err := b.templates().Build(b.context(), spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return made
}

// onTemplate returns a request for a script in a run with a template.
func onTemplate(name, script string) belljar.RunRequest {
	return with(shell(script), func(r *belljar.RunSpec) { r.BaseImage, r.Template = "", name })
}

// snapshotsLeft returns the number of the caller's snapshots of a kind.
func (b *bench) snapshotsLeft(kind string) (n int) {
	b.t.Helper()
	page, err := b.snapshots().List(b.context(), belljar.SnapshotQuery{Limit: belljar.MaxPage})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, x := range page.Items {
		if x.Kind == kind {
			n++
		}
	}
	return n
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	held, clock := newBlobs(), newHourglass()
	b := newBench(t, func(o *service.Options) { o.Blobs, o.Clock, o.Snapshots.TTL = held, clock, time.Hour })
	ctx, all := b.context(), b.templates()
	x := b.open()
	b.in(x.ID, "echo given >in")
	given, err := b.snapshots().Make(ctx, x.ID, belljar.SnapshotSpec{})
	if err != nil {
		t.Fatal(err)
	}
	spec := belljar.TemplateSpec{
		Name: "data", BaseImage: "host", Snapshot: given.ID, Env: map[string]string{"A": "template", "B": "template"}, WorkspaceExec: true,
		Resources: belljar.Resources{NoFile: 99}, Run: []string{`cat in >out; echo "$A" >>out`, "mkdir d; mv out d"}, Start: []string{`echo "$A $B" >started; sleep 1000 &`, "ulimit -t >cpu"},
	}
	made := b.template(spec)
	if made.Reason != "new" || made.UserID != "local" || made.Files != 2 || made.BuiltAt.IsZero() || !strings.HasPrefix(made.Digest, "sha256:") || made.Snapshot == given.ID {
		t.Errorf("%+v", made)
	}
	if run, err := b.Get(ctx, made.BuildRunID); err != nil || run.Command[2] != spec.Run[1] {
		t.Errorf("the build's last run: %+v, %v", run, err)
	}
	if err := b.snapshots().Remove(ctx, given.ID); err != nil { // the template keeps the files
		t.Error(err)
	}
	refusedAs(t, "a template's files", b.snapshots().Remove(ctx, made.Snapshot), belljar.CodeConflict)

	// A session and a run have the template's content, and their own in addition.
	const script = `cat d/out started; echo $A $B; ls /proc/*/cmdline >/dev/null; touch mine`
	want := "given\ntemplate\ntemplate request\ntemplate request\n"
	session, err := b.mine().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.0", Template: "data", Env: map[string]string{"B": "request"}}})
	if err != nil {
		t.Fatal(err)
	}
	if session.Template != "data" || session.BaseImage != "host" || session.SnapshotDigest != made.SnapshotDigest || session.Limits.NoFile != 99 {
		t.Errorf("%+v", session)
	}
	if got := b.in(session.ID, script); got.stdout != want {
		t.Errorf("in a session: %q", got.stdout)
	}
	if got := b.in(session.ID, "cat cpu").stdout; got != "unlimited\n" {
		t.Errorf("a start command in a session has %q s of CPU time", got)
	}
	one := b.run(with(onTemplate("data", script), func(r *belljar.RunSpec) { r.Env = map[string]string{"B": "request"} }))
	if one.stdout != want || one.Template != "data" || one.SnapshotDigest != made.SnapshotDigest {
		t.Errorf("a run: %q %+v", one.stdout, one.Run)
	}

	// First nothing has changed, then something has. The files of the previous build are removed later.
	if again := b.template(withSnapshot(spec, made.Snapshot)); !again.BuiltAt.Equal(made.BuiltAt) || again.Reason != "new" {
		t.Errorf("built again: %+v", again)
	}
	clock.pass(time.Minute)
	spec = withSnapshot(spec, made.Snapshot)
	spec.Start, spec.Run = nil, append(spec.Run, "echo more >d/more")
	changed := b.template(spec)
	if changed.Reason != "changed" || changed.Files != 3 || b.run(onTemplate("data", "cat d/more")).stdout != "more\n" {
		t.Errorf("%+v", changed)
	}
	if got := b.in(session.ID, "ls d").stdout; got != "out\n" {
		t.Errorf("the session of the former one has %q", got)
	}
	before := b.snapshotsLeft("template")
	clock.pass(2 * time.Hour)
	if err := b.service.Sweep(ctx); err != nil {
		t.Error(err)
	}
	if after := b.snapshotsLeft("template"); before != 4 || after != 2 {
		t.Errorf("%d snapshots, and %d after the sweep", before, after)
	}
	spec = withSnapshot(spec, changed.Snapshot)
	spec.Rebuild = true
	if asked := b.template(spec); asked.Reason != "asked" || asked.Rebuild || asked.SnapshotDigest == "" {
		t.Errorf("%+v", asked)
	}

	// A failed build changes nothing.
	spec.Rebuild, spec.Run = false, []string{"true", "echo so >&2; exit 3"}
	if spec.Snapshot, err = latest(b, "data"); err != nil {
		t.Fatal(err)
	}
	_, err = all.Build(ctx, spec)
	e := wantCode(t, "a failing command", err, belljar.CodeInvalidRequest, "run[1]", "exited with status 3", "belljar logs")
	if e.Details["output"] != "so\n" || e.Details["field"] != "run[1]" || e.Details["exit_code"] != 3 {
		t.Errorf("%v", e.Details)
	}
	if got, err := all.Get(ctx, "data"); err != nil || got.Reason != "asked" || b.run(onTemplate("data", "cat d/more")).stdout != "more\n" {
		t.Errorf("%+v, %v", got, err)
	}
	spec.Run, spec.Start, spec.Name = nil, []string{"true", "echo why; exit 4"}, "starts"
	b.template(spec)
	_, err = b.mine().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.0", Template: "starts"}})
	if e = wantCode(t, "a failing start", err, belljar.CodeConflict, "start[1]", "failed with exit code 4: why"); e.Details["output"] != "why\n" {
		t.Errorf("%v", e.Details)
	}
	if r := b.run(onTemplate("starts", "true")); r.ReasonCode != belljar.ReasonExecFailed || !strings.HasSuffix(r.Message, "failed with exit code 4: why") {
		t.Errorf("a run with a failing start: %+v", r.Run)
	}

	// Removed, it does not exist, and nothing is left of it.
	b.end(session, x)
	for _, name := range []string{"data", "starts"} {
		if err := all.Remove(ctx, name, false); err != nil {
			t.Error(err)
		}
		refusedAs(t, "again", all.Remove(ctx, name, false), belljar.CodeNotFound)
	}
	_, err = b.Start(ctx, onTemplate("data", "true"))
	wantCode(t, "removed", err, belljar.CodeNotFound, "data")
	if n := b.snapshotsLeft("template"); n != 0 || held.count() != 0 {
		t.Errorf("%d snapshots and %d blobs left", n, held.count())
	}
}

func withSnapshot(spec belljar.TemplateSpec, id string) belljar.TemplateSpec {
	spec.Snapshot = id
	return spec
}

// latest is the snapshot that a template was built with.
func latest(b *bench, name string) (string, error) {
	x, err := b.templates().Get(b.context(), name)
	return x.Snapshot, err
}

// A template belongs to its user, or to all users if an operator shares it. A user's own template takes precedence.
func TestTemplatesOfUsers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := b.context()
	alice, bob := b.service.As(belljar.Caller{ID: "alice"}), b.service.As(belljar.Caller{ID: "bob"})
	say := func(word string, shared bool) belljar.TemplateSpec {
		return belljar.TemplateSpec{Name: "t", BaseImage: "host", Run: []string{"echo " + word + " >word"}, Shared: shared}
	}
	outcome := func(who belljar.Service) string {
		t.Helper()
		made, err := who.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.0", Template: "t"}})
		if err != nil {
			return string(belljar.CodeOf(err))
		}
		f, err := who.Files().Stat(ctx, made.ID, "word")
		if err != nil {
			t.Fatal(err)
		}
		if err := who.Sessions().Delete(ctx, made.ID); err != nil {
			t.Error(err)
		}
		return map[int64]string{6: "alice", 7: "shared"}[f.Size]
	}
	_, err := alice.Templates().Build(ctx, say("shared", true))
	refusedAs(t, "shared by a user", err, belljar.CodeForbidden)
	if _, err := alice.Templates().Build(ctx, say("alice", false)); err != nil {
		t.Fatal(err)
	}
	if a, o := outcome(alice), outcome(bob); a != "alice" || o != "not_found" {
		t.Errorf("alice has %s, bob %s", a, o)
	}
	b.template(say("shared", true))
	if a, o := outcome(alice), outcome(bob); a != "alice" || o != "shared" {
		t.Errorf("alice has %s, bob %s", a, o)
	}
	if list, err := alice.Templates().List(ctx); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	refusedAs(t, "the shared one", bob.Templates().Remove(ctx, "t", true), belljar.CodeForbidden)
	refusedAs(t, "another user's", bob.Templates().Remove(ctx, "t", false), belljar.CodeNotFound)
	if err := alice.Templates().Remove(ctx, "t", false); err != nil || outcome(alice) != "shared" {
		t.Error(err)
	}
	mine, err := b.templates().Get(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	_, err = bob.Templates().Build(ctx, belljar.TemplateSpec{Name: "u", BaseImage: "host", Snapshot: belljar.NewID()})
	refusedAs(t, "no snapshot", err, belljar.CodeNotFound)
	if mine.UserID != "local" || !mine.Shared {
		t.Errorf("%+v", mine)
	}
}

// A field that excludes a template is named in the error.
func TestTemplateRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.template(belljar.TemplateSpec{Name: "t", BaseImage: "host"})
	x := b.open()
	git := &belljar.GitSpec{URL: "https://git.example/x"}
	for field, change := range map[string]func(*belljar.SessionSpec){
		"base_image": func(s *belljar.SessionSpec) { s.BaseImage = "python" }, "snapshot": func(s *belljar.SessionSpec) { s.Snapshot = belljar.NewID() },
		"git": func(s *belljar.SessionSpec) { s.Git = git }, "template": func(s *belljar.SessionSpec) { s.Template = "../t" },
	} {
		spec := belljar.SessionSpec{SpecVersion: "1.0", Template: "t"}
		change(&spec)
		_, err := b.mine().Create(b.context(), belljar.SessionRequest{SessionSpec: spec})
		if e := wantCode(t, field, err, belljar.CodeInvalidRequest); e.Details["field"] != field {
			t.Errorf("%s: %v", field, e.Details)
		}
	}
	_, err := b.mine().Create(b.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.0"}})
	if e := wantCode(t, "neither", err, belljar.CodeInvalidRequest); e.Details["field"] != "base_image" {
		t.Error(e.Details)
	}
	for field, change := range map[string]func(*belljar.RunSpec){
		"base_image": func(s *belljar.RunSpec) { s.BaseImage = "python" }, "snapshot": func(s *belljar.RunSpec) { s.Snapshot = belljar.NewID() },
		"git": func(s *belljar.RunSpec) { s.Git = git }, "template": func(s *belljar.RunSpec) { s.SessionID = x.ID }, "build_cache": func(s *belljar.RunSpec) { s.BuildCache = true },
	} {
		req := onTemplate("t", "true")
		change(&req.RunSpec)
		_, err := b.Start(b.context(), req)
		if e := wantCode(t, field, err, belljar.CodeInvalidRequest); e.Details["field"] != field {
			t.Errorf("%s: %v", field, e.Details)
		}
	}
	for field, spec := range map[string]belljar.TemplateSpec{
		"name": {Name: "T", BaseImage: "host"}, "base_image": {Name: "t"}, "run": {Name: "t", BaseImage: "host", Run: []string{" "}},
		"start": {Name: "t", BaseImage: "host", Start: make([]string, 65)}, "packages.apt": {Name: "t", BaseImage: "host", Packages: belljar.Packages{Apt: []string{"git"}}},
		"timeout_sec": {Name: "t", BaseImage: "host", TimeoutSec: -1}, "snapshot": {Name: "t", BaseImage: "host", Snapshot: "../x"},
	} {
		_, err := b.templates().Build(b.context(), spec)
		if e := wantCode(t, field, err, belljar.CodeInvalidRequest); e.Details["field"] != field {
			t.Errorf("%s: %v", field, e.Details)
		}
	}
	_, err = b.templates().Build(b.context(), belljar.TemplateSpec{Name: "t", BaseImage: "host", Start: slices.Repeat([]string{strings.Repeat("x", 60<<10)}, 5)})
	if e := wantCode(t, "large", err, belljar.CodeInvalidRequest); e.Details["maximum"] != 256<<10 {
		t.Errorf("large: %v", e)
	}
	b.end(x)
}

// A template is rebuilt when its image has changed, or was removed.
func TestTemplateImage(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	i := simple()
	ref, digest := g.hub.Put(t, "app:1", i)
	made := g.template(belljar.TemplateSpec{Name: "t", BaseImage: ref, Run: []string{"echo x >f"}})
	if made.ImageDigest != digest || made.Reason != "new" {
		t.Errorf("%+v", made)
	}
	expect := func(reason, digest string) {
		t.Helper()
		r := g.run(onTemplate("t", "cat f"))
		got, err := g.templates().Get(t.Context(), "t")
		if err != nil || got.Reason != reason || got.ImageDigest != digest || r.stdout != "x\n" || r.ImageDigest != digest {
			t.Errorf("%+v, %v; the run has %s, %q", got, err, r.ImageDigest, r.stdout)
		}
	}
	expect("new", digest)
	i.Files["etc/more"] = "y"
	_, second := g.hub.Put(t, "app:1", i)
	if _, err := g.images.Pull(t.Context(), belljar.ImagePull{Ref: ref, Always: true}, nil); err != nil {
		t.Fatal(err)
	}
	expect("image_changed", second)
	g.service.WaitIdle() // sandboxes use the image until they are removed
	if _, err := g.images.Prune(t.Context(), belljar.ImagePrune{All: true}); err != nil {
		t.Fatal(err)
	}
	expect("image_removed", second)

	// If the rebuild fails, its error is returned, and the template stays.
	g.service.WaitIdle() // sandboxes use the image until they are removed
	if _, err := g.images.Prune(t.Context(), belljar.ImagePrune{All: true}); err != nil {
		t.Fatal(err)
	}
	g.hub.Meddle(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	_, err := g.Start(t.Context(), onTemplate("t", "cat f"))
	wantCode(t, "no image", err, belljar.CodeImageUnavailable, "must be built again (image_removed)")
	if got, err := g.templates().Get(t.Context(), "t"); err != nil || got.Reason != "image_removed" {
		t.Errorf("%+v, %v", got, err)
	}
}

// The image of a recipe is made on a machine. If it is removed, no registry is asked for one of its name, and the hint names the command
// that makes it again.
func TestTemplateImageOfRecipe(t *testing.T) {
	t.Parallel()
	for _, pull := range []string{admission.PullMissing, admission.PullNever} {
		g := newGallery(t, func(o *service.Options) { o.Policy = service.DefaultPolicy(); o.Policy.ImagePull = pull })
		const name = "belljar/template:shell-1"
		ref, _ := g.hub.Put(t, "app:1", simple())
		if _, err := g.images.Pull(t.Context(), belljar.ImagePull{Ref: ref}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := g.images.Tag(t.Context(), ref, name); err != nil {
			t.Fatal(err)
		}
		g.template(belljar.TemplateSpec{Name: "t", BaseImage: name})
		g.service.WaitIdle() // sandboxes use the image until they are removed
		if _, err := g.images.Prune(t.Context(), belljar.ImagePrune{All: true}); err != nil {
			t.Fatal(err)
		}
		_, err := g.Start(t.Context(), onTemplate("t", "true"))
		wantCode(t, "a run", err, belljar.CodeImageUnavailable, "must be built again (image_removed)", `image "`+name+`" is not available`, "belljar template build FILE")
		_, err = g.images.Pull(t.Context(), belljar.ImagePull{Ref: name}, nil)
		wantCode(t, "a pull", err, belljar.CodeImageUnavailable, "does not exist here and is never fetched", "belljar template build FILE")
	}
}

// A running build shows its step: for a new template, and for one that stays usable meanwhile.
func TestTemplateProgress(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, all, gate := b.context(), b.templates(), filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	spec := belljar.TemplateSpec{Name: "slow", BaseImage: "host", Run: []string{"true", "cat " + gate}}
	// building begins a build that stays in its second command until the returned function is called.
	building := func(spec belljar.TemplateSpec) (belljar.Template, func() error) {
		t.Helper()
		failed := make(chan error, 1)
		go func() {
			_, err := all.Build(ctx, spec)
			failed <- err
		}()
		open, err := os.OpenFile(gate, os.O_WRONLY, 0) // waits for the command
		if err != nil {
			t.Fatal(err)
		}
		var got belljar.Template
		b.eventually("the step", func() bool {
			got, _ = all.Get(ctx, "slow")
			return got.Building == "run[1]" && got.BuildRunID != ""
		})
		return got, func() error {
			open.Close()
			return <-failed
		}
	}

	got, end := building(spec)
	if !got.BuiltAt.IsZero() || got.Reason != "new" || got.BaseImage != "host" || len(got.Run) != 2 {
		t.Errorf("the first build: %+v", got)
	}
	if run, err := b.Get(ctx, got.BuildRunID); err != nil || run.Command[2] != "cat "+gate {
		t.Errorf("its run: %+v, %v", run, err)
	}
	if list, err := all.List(ctx); err != nil || len(list) != 1 || list[0].Building != "run[1]" {
		t.Errorf("listed as %+v, %v", list, err)
	}
	_, err := b.Start(ctx, onTemplate("slow", "true"))
	wantCode(t, "a run of it", err, belljar.CodeConflict, "built for the first time (run[1])")
	if err := end(); err != nil {
		t.Fatal(err)
	}
	first, err := all.Get(ctx, "slow")
	if err != nil || first.BuiltAt.IsZero() || first.Building != "" || first.BuildRunID != "" {
		t.Errorf("built: %+v, %v", first, err)
	}

	spec.Env = map[string]string{"A": "1"}
	got, end = building(spec)
	if !got.BuiltAt.Equal(first.BuiltAt) || got.Digest != first.Digest || got.Env != nil {
		t.Errorf("the second build: %+v", got)
	}
	if r := b.run(onTemplate("slow", "echo used")); r.stdout != "used\n" {
		t.Errorf("a run of the first: %+v", r)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}

	spec.Env = nil
	got, end = building(spec)
	run, err := b.Get(ctx, got.BuildRunID)
	if err = errors.Join(err, b.mine().Delete(ctx, run.SessionID)); err != nil {
		t.Error(err)
	}
	wantCode(t, "a build whose session is removed", end(), belljar.CodeConflict, "run[1] of template \"slow\" was canceled")

	spec.Name, spec.Run = "fails", []string{"exit 1"}
	if _, err := all.Build(ctx, spec); err == nil {
		t.Error("it was built")
	}
	_, err = all.Get(ctx, "fails")
	wantCode(t, "a build that failed", err, belljar.CodeNotFound)
}
