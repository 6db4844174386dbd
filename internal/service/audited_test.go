//go:build linux

package service_test

import (
	"io"
	"os"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
)

// auditor makes the requests of TestAudited.
var auditor = belljar.Caller{ID: "opa", Role: belljar.RoleAdmin, Source: "rest"}

// trail stores the events, and signals the end of a run that timed out.
type trail struct {
	diary
	timedOut chan struct{}
}

func (r *trail) Record(e event.Event) {
	r.diary.Record(e)
	if e.Name == event.RunTimedOut {
		close(r.timedOut)
	}
}

// audited is an operation that records exactly one event with its name.
type audited struct {
	name string
	kind string                           // Kind or Reason of the event
	of   func(event.Event) string         // what the event is about
	do   func() (about string, err error) // the operation
}

func detail(key string) func(event.Event) string {
	return func(e event.Event) string { return e.Detail[key] }
}

func aboutSession(e event.Event) string { return e.Session.ID }

func aboutRun(e event.Event) string { return e.Run.ID }

// audits returns the operations, each of which may use what the previous ones made.
func audits(g *gallery, events *trail) []audited {
	ctx, as := g.context(), g.service.As(auditor)
	var session, run, made string
	ref, _ := g.hub.Put(g.t, "app:1", simple())
	about := func(id string, f func() error) func() (string, error) {
		return func() (string, error) { return id, f() }
	}
	return []audited{
		{event.QuotaSet, "", detail("user_id"), about("ann", func() error { return as.Admin().SetQuota(ctx, "ann", &belljar.Quota{MemoryMB: 512}) })},
		{event.RunTimedOut, "execution_timeout", aboutRun, func() (string, error) {
			x, err := as.Runs().Start(ctx, with(shell("sleep 1000"), func(s *belljar.RunSpec) { s.TimeoutSec = 0.1 }))
			if err == nil {
				<-events.timedOut
			}
			return x.ID, err
		}},
		{event.RunCompleted, "", aboutRun, func() (string, error) {
			x, err := as.Runs().Start(ctx, with(shell("echo text >file"), func(s *belljar.RunSpec) { s.CapturePatterns = []string{"*"} }))
			if run = x.ID; err == nil {
				g.seen(auditor).follow(run)
			}
			return run, err
		}},
		{event.ArtifactOpened, "", detail("path"), about("file", func() error {
			_, body, err := as.Artifacts().Open(ctx, run, "file", 0)
			if err == nil {
				err = body.Close()
			}
			return err
		})},
		{event.SessionCreated, "", aboutSession, func() (string, error) {
			x, err := as.Sessions().Create(ctx, spec())
			session = x.ID
			return session, err
		}},
		{event.ContextCreated, "python", detail("context"), about("data", func() error {
			_, err := as.Contexts().Create(ctx, session, belljar.ContextSpec{Language: "python", Name: "data"})
			return err
		})},
		{event.ContextEnded, "restarted", detail("context"), about("data", func() error {
			_, err := as.Contexts().Restart(ctx, session, "data")
			return err
		})},
		{event.ContextEnded, "deleted", detail("context"), about("data", func() error { return as.Contexts().Delete(ctx, session, "data") })},
		{event.SnapshotMade, "session", detail("snapshot_id"), func() (string, error) {
			x, err := as.Snapshots().Make(ctx, session, belljar.SnapshotSpec{})
			made = x.ID
			return made, err
		}},
		{event.SnapshotMade, "import", detail("snapshot_id"), func() (string, error) {
			x, err := as.Snapshots().Import(ctx, belljar.SnapshotSpec{}, archive(g.t, map[string]string{"file": "text"}))
			return x.ID, err
		}},
		{event.SnapshotExported, "", detail("snapshot_id"), func() (string, error) { return made, as.Snapshots().Export(ctx, made, io.Discard) }},
		{event.SnapshotRemoved, "", detail("snapshot_id"), func() (string, error) { return made, as.Snapshots().Remove(ctx, made) }},
		{event.SessionForked, "", detail("session_id"), func() (string, error) {
			_, err := as.Snapshots().Fork(ctx, session, belljar.ForkSpec{})
			return session, err
		}},
		{event.TemplateBuilt, "new", detail("template"), about("tools", func() error {
			_, err := as.Templates().Build(ctx, belljar.TemplateSpec{Name: "tools", BaseImage: "host", Run: []string{"echo text >file"}})
			return err
		})},
		{event.TemplateRemoved, "new", detail("template"), about("tools", func() error { return as.Templates().Remove(ctx, "tools", false) })},
		{event.VolumeMade, "", detail("volume"), about("disk", func() error {
			_, err := as.Volumes().Create(ctx, belljar.VolumeSpec{Name: "disk", MB: 10})
			return err
		})},
		{event.VolumeRemoved, "", detail("volume"), about("disk", func() error { return as.Volumes().Remove(ctx, "disk") })},
		{event.ImagePulled, "", detail("image"), about(ref, func() error {
			_, err := as.Images().Pull(ctx, belljar.ImagePull{Ref: ref}, nil)
			return err
		})},
		{event.ImageTagged, "", detail("image"), about("own:1", func() error {
			_, err := as.Images().Tag(ctx, ref, "own:1")
			return err
		})},
	}
}

// Each operation records exactly one event with its name, of its caller and about its object.
func TestAudited(t *testing.T) {
	t.Parallel()
	events := &trail{timedOut: make(chan struct{})}
	g := newGallery(t, func(o *service.Options) {
		o.Events = events
		o.Volumes = service.VolumeOptions{Dir: t.TempDir(), MB: 50, Make: func(path string, _, _ int64) error { return os.WriteFile(path, nil, 0o600) }}
	})
	for _, op := range audits(g, events) {
		before := len(events.named(op.name))
		about, err := op.do()
		if err != nil {
			t.Fatalf("%s: %v", op.name, err)
		}
		got := events.named(op.name)[before:]
		if len(got) != 1 {
			t.Errorf("%d events %s", len(got), op.name)
			continue
		}
		if e := got[0]; e.Caller != auditor || op.of(e) != about || op.kind != "" && e.Kind != op.kind && e.Reason != op.kind || e.Err != nil {
			t.Errorf("%s is about %q, want %q: %+v", op.name, op.of(e), about, e)
		}
	}
}

// A session that the next process continues is audited.
func TestRevivalAudited(t *testing.T) {
	t.Parallel()
	events := &diary{}
	w := newWorld(t, func(o *service.Options) { o.Events = events })
	p := w.boot()
	x := p.open()
	p.kill()
	if got := events.named(event.SessionRevived); len(got) > 0 {
		t.Errorf("before the restart: %+v", got)
	}
	next := w.boot()
	if got := events.named(event.SessionRevived); len(got) != 1 || got[0].Session.ID != x.ID || got[0].Caller.ID != service.Local().ID {
		t.Errorf("%+v", got)
	}
	next.end(x)
}
