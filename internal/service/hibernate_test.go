//go:build linux

package service_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

func (b *bench) hibernate(id string, force bool) (belljar.Session, error) {
	return b.mine().Hibernate(b.context(), id, belljar.HibernateSpec{Force: force})
}

// sleeping hibernates a session.
func (b *bench) sleeping(id string) {
	b.t.Helper()
	if x, err := b.hibernate(id, false); err != nil || x.State != belljar.SessionHibernated {
		b.t.Fatalf("%s, %v", x.State, err)
	}
}

func shellIn(id, cmd string) belljar.RunRequest {
	return belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.0", SessionID: id, Shell: &belljar.ShellCommand{Cmd: cmd, Separate: true}}}
}

// A hibernated session resumes with its files, the state of its shell, its scope and its terms.
func TestHibernate(t *testing.T) {
	t.Parallel()
	held, events := newBlobs(), &diary{}
	b := newBench(t, func(o *service.Options) { o.Blobs, o.Events = held, events })
	ctx := b.context()
	x := b.open(func(r *belljar.SessionRequest) {
		r.Scope, r.Env, r.Labels = belljar.Scope{Namespace: "workflow", ID: "1", Key: "a"}, map[string]string{"OWN": "env"}, map[string]string{"a": "b"}
	})
	b.in(x.ID, workspaceOf)
	want := b.in(x.ID, manifest).stdout
	b.run(shellIn(x.ID, `cd d/e; one='a  b'; export two=$'c\nd'; three() { echo "f $1"; }; declare -A map=([k]=v)`))
	before, err := b.mine().Get(ctx, x.ID)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // in the second round, from a resumed session
		b.sleeping(x.ID)
		if left, err := b.fake.List(ctx); err != nil || len(left) > 0 {
			t.Fatalf("sandboxes %v, %v", left, err)
		}
		asleep, err := b.mine().Get(ctx, x.ID)
		if err != nil || asleep.State != belljar.SessionHibernated || !asleep.ExpiresAt.Equal(before.ExpiresAt) && !asleep.ExpiresAt.After(before.ExpiresAt) {
			t.Errorf("%+v, %v", asleep, err)
		}
		saved, err := b.snapshots().Get(ctx, x.ID)
		if err != nil || saved.Kind != "hibernated" || saved.SessionID != x.ID || !saved.Consistent || b.kept() != saved.StoredBytes || saved.ExpiresAt == nil {
			t.Errorf("%+v, %v; %d bytes kept", saved, err, b.kept())
		}
		refusedAs(t, "removal", b.snapshots().Remove(ctx, x.ID), belljar.CodeConflict)
		b.sleeping(x.ID) // has no effect
		opened, created, err := b.mine().Open(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{Scope: belljar.Scope{Namespace: "workflow", ID: "1", Key: "a"}}})
		if err != nil || created || opened.ID != x.ID || opened.State != belljar.SessionHibernated {
			t.Errorf("%+v, %v, %v", opened, created, err)
		}

		if got := b.in(x.ID, manifest).stdout; got != want {
			t.Errorf("other files: %s, %s", got, want)
		}
		r := b.run(shellIn(x.ID, `echo "$one|$two|${map[k]}|$OWN"; three x`))
		wantText(t, r.stdout, "a  b|c\nd|v|env\nf x\n")
		after, err := b.mine().Get(ctx, x.ID)
		if err != nil || after.State != belljar.SessionActive || after.ScopeKey != before.ScopeKey || after.Labels["a"] != "b" || after.Limits != before.Limits || after.Cwd == "" {
			t.Errorf("%+v, %v", after, err)
		}
		b.until(func() bool { return held.count() == 0 && b.kept() == 0 })
	}
	b.until(func() bool { return len(events.named(event.SessionWoken)) == 2 })
	slept, woke := events.named(event.SessionHibernated), events.named(event.SessionWoken)
	if len(slept) != 2 || len(woke) != 2 || slept[0].Count < 3<<20 || slept[0].Files != 11 || slept[0].Session.ID != x.ID {
		t.Errorf("%+v, %+v", slept, woke)
	}

	// The end of a hibernated session removes its files.
	b.sleeping(x.ID)
	if err := b.mine().Delete(ctx, x.ID); err != nil {
		t.Fatal(err)
	}
	if got := b.state(x.ID, belljar.SessionClosed).Hibernated; got != nil {
		t.Errorf("it has ended, and still has %+v", got)
	}
	if _, err := b.snapshots().Get(ctx, x.ID); belljar.CodeOf(err) != belljar.CodeNotFound || held.count() != 0 || b.kept() != 0 {
		t.Errorf("%v; %d blobs, %d bytes kept", err, held.count(), b.kept())
	}
	_, err = b.hibernate(x.ID, true)
	refusedAs(t, "a session that has ended", err, belljar.CodeConflict)
	_, err = b.service.As(belljar.Caller{ID: "other"}).Sessions().Hibernate(ctx, x.ID, belljar.HibernateSpec{})
	refusedAs(t, "another user's", err, belljar.CodeNotFound)
}

// A cancelled forced hibernation leaves a session in which everything works.
func TestHibernateGivenUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, limited(func(l *belljar.Limits) { l.GraceSec = patience.Seconds() }))
	x := b.open()
	run := b.start(in(x, "trap 'echo term' TERM; "+looping))
	b.waitFor(run.ID, "up")
	ctx, cancel := context.WithCancel(b.context())
	result := make(chan error, 1)
	go func() {
		_, err := b.mine().Hibernate(ctx, x.ID, belljar.HibernateSpec{Force: true})
		result <- err
	}()
	b.waitFor(run.ID, "term")
	cancel()
	refusedAs(t, "the hibernation", <-result, belljar.CodeCanceled)
	b.in(x.ID, "touch stop")
	if r := b.follow(run.ID); r.Phase != belljar.PhaseKilled {
		t.Errorf("%s", r.Phase)
	}
	if _, err := b.service.As(service.Local()).Snapshots().Make(b.context(), x.ID, belljar.SnapshotSpec{}); err != nil {
		t.Error(err)
	}
}

// Running programs prevent a session from hibernating, unless it is forced, which ends them.
func TestHibernateInUse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x := b.open()
	refused := func(what, rule string) {
		t.Helper()
		_, err := b.hibernate(x.ID, false)
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != belljar.CodeConflict || e.Details["rule"] != rule || e.Hint == "" {
			t.Errorf("%s: %v", what, err)
		}
		b.state(x.ID, belljar.SessionActive)
	}
	run := b.start(in(x, "echo kept >file; echo up; sleep 1000"))
	b.waitFor(run.ID, "up")
	refused("a run", "in_use")
	if s, err := b.hibernate(x.ID, true); err != nil || s.State != belljar.SessionHibernated {
		t.Fatalf("%s, %v", s.State, err)
	}
	if r := b.follow(run.ID); r.Phase != belljar.PhaseKilled {
		t.Errorf("%s", r.Phase)
	}

	wantText(t, b.in(x.ID, "cat file; sleep 1000 >/dev/null 2>&1 &").stdout, "kept\n")
	refused("a background process", "in_use")
	if _, err := b.hibernate(x.ID, true); err != nil {
		t.Fatal(err)
	}
	b.run(shellIn(x.ID, "sleep 1000 & true"))
	refused("a job of the shell", "in_use")
	if _, err := b.hibernate(x.ID, true); err != nil {
		t.Fatal(err)
	}

	// Viewers of a terminal get its end.
	terminals := b.service.As(service.Local()).Terminals()
	term, err := terminals.Open(b.context(), x.ID, belljar.TerminalSpec{})
	if err != nil {
		t.Fatal(err)
	}
	view, err := terminals.Attach(b.context(), term.ID)
	if err != nil {
		t.Fatal(err)
	}
	refused("a terminal", "in_use")
	if _, err := b.hibernate(x.ID, true); err != nil {
		t.Fatal(err)
	}
	for e := (belljar.TerminalEvent{}); e.Kind != belljar.TerminalClosed; {
		if e, err = view.Next(b.context()); err != nil || e.Kind == belljar.TerminalClosed && e.Reason != "session" {
			t.Fatal(e.Reason, err)
		}
	}

	// A context still exists, without its variables.
	code := func(s string) result {
		return b.run(belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.0", SessionID: x.ID, Context: "c", Language: "bash", Code: s}})
	}
	code("variable=1")
	refused("a context", "in_use")
	if _, err := b.hibernate(x.ID, true); err != nil {
		t.Fatal(err)
	}
	if r := code("echo [$variable]"); r.stdout != "[]\n" || r.Context.State != belljar.ContextNew || !r.Context.Lost() {
		t.Errorf("%q, %+v", r.stdout, r.Context)
	}
	if r := code("true"); r.Context.State != belljar.ShellKept {
		t.Errorf("%+v", r.Context)
	}
}

// A secret file prevents hibernation, even a forced one. A shell with too much state prevents only an unforced one.
func TestHibernateRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *service.Options) { o.Quota.ArtifactMB = 1 })
	x := b.open(func(r *belljar.SessionRequest) {
		r.Secrets = map[string]belljar.Secret{"KEY": {Value: "a value that is long"}}
	})
	for _, force := range []bool{false, true} {
		var e *belljar.Error
		if _, err := b.hibernate(x.ID, force); !errors.As(err, &e) || e.Code != belljar.CodeConflict || e.Details["rule"] != "secrets" {
			t.Errorf("%v", err)
		}
	}
	x = b.open()
	b.run(shellIn(x.ID, `large=$(head -c 100000 /dev/urandom | base64 -w0)`))
	var e *belljar.Error
	if _, err := b.hibernate(x.ID, false); !errors.As(err, &e) || e.Code != belljar.CodeConflict || e.Details["rule"] != "shell" {
		t.Errorf("%v", err)
	}
	if _, err := b.hibernate(x.ID, true); err != nil {
		t.Error(err)
	}
	b.in(x.ID, "true")
	if got := b.state(x.ID, belljar.SessionActive).Cwd; got != "" {
		t.Errorf("its new shell is in %q before its first command", got)
	}
	if r := b.run(shellIn(x.ID, `echo [$large]`)); r.stdout != "[]\n" {
		t.Errorf("%.100q", r.stdout)
	}
	b.in(x.ID, "head -c 2000000 /dev/urandom >file")
	run := b.start(in(x, looping))
	b.waitFor(run.ID, "up")
	_, err := b.hibernate(x.ID, true)
	refusedAs(t, "files above the quota", err, belljar.CodeQuotaExceeded)
	b.in(x.ID, "touch stop")
	if r := b.follow(run.ID); r.Phase != belljar.PhaseCompleted {
		t.Errorf("a run that a hibernation ended for nothing: %s", r.Phase)
	}
	b.service.WaitIdle()
	_, err = b.hibernate(x.ID, false)
	refusedAs(t, "files above the quota", err, belljar.CodeQuotaExceeded)
	b.state(x.ID, belljar.SessionActive)
	if size := b.in(x.ID, "wc -c <file").stdout; size != "2000000\n" || b.kept() != 0 {
		t.Errorf("%q, %d bytes kept", size, b.kept())
	}

	// A retained session no longer hibernates when it is idle, but a hibernated one can be retained.
	x = b.open(func(r *belljar.SessionRequest) { r.Scope = belljar.Scope{Namespace: "workflow", ID: "1", Key: "a"} })
	b.in(x.ID, "echo text >file")
	b.sleeping(x.ID)
	if closed, err := b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "workflow:1:", RetainSec: 60}); err != nil || len(closed) != 1 {
		t.Errorf("%v, %v", closed, err)
	}
	if got := b.state(x.ID, belljar.SessionHibernated); got.ScopeKey != "" {
		t.Errorf("scope %s", got.ScopeKey)
	}
	wantText(t, b.in(x.ID, "cat file").stdout, "text\n")
}

// Idle sessions hibernate after the time, and still expire.
func TestHibernateByItself(t *testing.T) {
	t.Parallel()
	clock, events := newHourglass(), &diary{}
	full := newBlobs()
	b := newBench(t, func(o *service.Options) {
		o.Clock, o.SessionRest, o.SessionTTL, o.Events, o.Blobs = clock, time.Minute, time.Hour, events, full
	})
	x := b.open()
	slept := func(want int) {
		t.Helper()
		b.until(func() bool { return len(events.named(event.SessionHibernated)) == want })
		b.state(x.ID, belljar.SessionHibernated)
	}
	used := clock.Now()
	clock.pass(59 * time.Second)
	b.state(x.ID, belljar.SessionActive)
	clock.pass(time.Second)
	slept(1)
	b.in(x.ID, "echo text >file")
	run := b.start(in(x, looping))
	b.waitFor(run.ID, "up")
	clock.pass(10 * time.Minute) // a run counts as activity
	b.state(x.ID, belljar.SessionActive)
	b.in(x.ID, "touch stop")
	b.follow(run.ID)
	b.service.WaitIdle()
	if got := b.state(x.ID, belljar.SessionActive); !got.LastActivityAt.After(used) {
		t.Errorf("last activity %v", got.LastActivityAt)
	}
	used = clock.Now()
	clock.pass(time.Minute)
	slept(2)
	if got := b.state(x.ID, belljar.SessionHibernated); !got.LastActivityAt.Equal(used) || !got.ExpiresAt.Equal(used.Add(time.Hour)) {
		t.Errorf("last activity %v, expires at %v", got.LastActivityAt, got.ExpiresAt)
	}
	clock.pass(58 * time.Minute)
	b.state(x.ID, belljar.SessionHibernated)
	clock.pass(time.Minute)
	b.gone(x.ID)
	b.state(x.ID, belljar.SessionExpired)
	b.until(func() bool { return full.count() == 0 && b.kept() == 0 })
}

// until waits until a condition holds.
func (b *bench) until(holds func() bool) {
	b.t.Helper()
	for ctx := b.context(); !holds(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			b.t.Fatal(context.Cause(ctx))
		}
	}
}

// A session that is deleted while its released sandbox is being destroyed ends normally.
func TestDeleteAsItHibernates(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	b := newBench(t, over(func(r runtime.Runtime) runtime.Runtime { return &lingering{r, gone} }), func(o *service.Options) { o.Blobs = newBlobs() })
	x := b.open()
	isNow := func(want belljar.SessionState) {
		b.until(func() bool {
			got, err := b.mine().Get(b.context(), x.ID)
			return err == nil && got.State == want
		})
	}
	ends := make(chan error, 2)
	go func() {
		_, err := b.hibernate(x.ID, false)
		ends <- err
	}()
	isNow(belljar.SessionHibernated)
	go func() { ends <- b.mine().Delete(b.context(), x.ID) }()
	isNow(belljar.SessionClosed)
	close(gone)
	for range 2 {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
}

// A session that has released its sandbox can be retained immediately, even if the destruction takes long.
func TestRetainAsItHibernates(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	b := newBench(t, over(func(r runtime.Runtime) runtime.Runtime { return &lingering{r, gone} }))
	x := b.open(func(r *belljar.SessionRequest) { r.Scope = belljar.Scope{Namespace: "workflow", ID: "1", Key: "a"} })
	ends := make(chan error, 2)
	go func() {
		_, err := b.hibernate(x.ID, false)
		ends <- err
	}()
	b.state(x.ID, belljar.SessionHibernated)
	go func() {
		_, err := b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "workflow:1:", RetainSec: 60})
		ends <- err
	}()
	if err := <-ends; err != nil || b.state(x.ID, belljar.SessionHibernated).ScopeKey != "" {
		t.Errorf("it has its scope still, %v", err)
	}
	close(gone)
	if err := <-ends; err != nil {
		t.Error(err)
	}
}

// A use cancels an unforced hibernation, and a resume that finds damaged files leaves the session unchanged.
func TestHibernateCalledOff(t *testing.T) {
	t.Parallel()
	held := &gatedBlobs{blobs: newBlobs()}
	b := newBench(t, func(o *service.Options) { o.Blobs = held })
	x := b.open()
	b.in(x.ID, "echo text >file")
	files := b.service.As(service.Local()).Files()
	held.gate()
	result := make(chan error, 1)
	go func() {
		_, err := b.hibernate(x.ID, false)
		result <- err
	}()
	<-held.asked
	if _, err := files.Stat(b.context(), x.ID, "file"); err != nil { // does not wait
		t.Fatal(err)
	}
	close(held.proceed)
	refusedAs(t, "a hibernation that was called off", <-result, belljar.CodeConflict)
	b.state(x.ID, belljar.SessionActive)
	if held.count() != 0 || b.kept() != 0 {
		t.Errorf("%d blobs, %d bytes", held.count(), b.kept())
	}
	b.sleeping(x.ID)
	held.mu.Lock()
	for k, raw := range held.held {
		raw[len(raw)/2] ^= 1
		held.held[k] = raw
	}
	held.mu.Unlock()
	_, err := files.Stat(b.context(), x.ID, "file")
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeConflict || e.Details["rule"] != "damaged" || !strings.HasPrefix(e.Hint, "end the session") {
		t.Errorf("%v", err)
	}
	b.state(x.ID, belljar.SessionHibernated)
	if err := b.mine().Delete(b.context(), x.ID); err != nil {
		t.Fatal(err)
	}
}

// A failed forced hibernation does not affect the uses that wait for its end: the session has its sandbox.
func TestHibernateFailsForItsCallerAlone(t *testing.T) {
	t.Parallel()
	held, clock := &gatedBlobs{blobs: newBlobs()}, newHourglass()
	b := newBench(t, func(o *service.Options) { o.Blobs, o.Clock = held, clock })
	x := b.open()
	b.in(x.ID, "echo text >file")
	held.gate()
	ctx, giveUp := context.WithCancel(b.context())
	result, used := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := b.mine().Hibernate(ctx, x.ID, belljar.HibernateSpec{Force: true})
		result <- err
	}()
	<-held.asked
	clock.pass(time.Minute)
	go func() {
		_, err := b.service.As(service.Local()).Files().Stat(b.context(), x.ID, "file")
		used <- err
	}()
	b.until(func() bool { return b.state(x.ID, belljar.SessionActive).LastActivityAt.Equal(clock.Now()) }) // it waits
	giveUp()
	close(held.proceed)
	refusedAs(t, "a hibernation that was cancelled", <-result, belljar.CodeCanceled)
	if err := <-used; err != nil {
		t.Errorf("a use that waited: %v", err)
	}
	b.state(x.ID, belljar.SessionActive)
}

// gatedBlobs blocks Put once.
type gatedBlobs struct {
	*blobs
	asked, proceed chan struct{}
}

func (b *gatedBlobs) gate() { b.asked, b.proceed = make(chan struct{}), make(chan struct{}) }

func (b *gatedBlobs) Put(ctx context.Context, k blob.Key, r io.Reader) (blob.Info, error) {
	if b.asked != nil {
		close(b.asked)
		<-b.proceed
		b.asked = nil
	}
	return b.blobs.Put(ctx, k, r)
}
