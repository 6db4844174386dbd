//go:build linux

package service_test

import (
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// A queued run and a session that waits for an approval begin with their template's current files, and record them.
func TestTemplateBuiltMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, one, asking("timeout_sec>600")).seen(ann)
	own := b.service.As(ann)
	build := func(word string) belljar.Template {
		t.Helper()
		made, err := own.Templates().Build(b.context(), belljar.TemplateSpec{Name: "t", BaseImage: "host", Run: []string{"echo " + word + " >word"}})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	first := build("one")
	asked, err := own.Sessions().Create(b.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.1", Template: "t", TimeoutSec: 900}})
	if err != nil || asked.State != belljar.SessionStarting || asked.SnapshotDigest != first.SnapshotDigest {
		t.Fatalf("%+v, %v", asked, err)
	}
	_, end := b.busy()
	queued := b.start(onTemplate("t", "cat word"))
	second := build("two")
	if second.SnapshotDigest == first.SnapshotDigest {
		t.Fatal("both builds have the same files")
	}
	end()
	if r := b.follow(queued.ID); r.stdout != "two\n" || r.SnapshotDigest != second.SnapshotDigest {
		t.Errorf("a run of %q has the digest %s, and not %s", r.stdout, r.SnapshotDigest, second.SnapshotDigest)
	}
	b.approve(asked.ID)
	r := b.run(in(asked, "cat word"))
	if r.stdout != "two\n" || r.SnapshotDigest != second.SnapshotDigest {
		t.Errorf("a run of %q in the session has the digest %s, and not %s", r.stdout, r.SnapshotDigest, second.SnapshotDigest)
	}
	if x, err := own.Sessions().Get(b.context(), asked.ID); err != nil || x.SnapshotDigest != second.SnapshotDigest {
		t.Errorf("a session of %q: %+v, %v", r.stdout, x, err)
	}
}

// A template that is built often keeps the files of at most two builds.
func TestTemplateBuiltOften(t *testing.T) {
	t.Parallel()
	held := newBlobs()
	b := newBench(t, func(o *service.Options) { o.Blobs, o.Quota.ArtifactMB = held, 1 })
	for range 5 {
		b.template(belljar.TemplateSpec{Name: "t", BaseImage: "host", Run: []string{"head -c 300000 /dev/urandom >f"}, Rebuild: true})
	}
	if n := b.snapshotsLeft("template"); n != 2 || held.count() != 2 {
		t.Errorf("%d snapshots, %d blobs", n, held.count())
	}
	if r := b.run(onTemplate("t", "wc -c <f")); r.stdout != "300000\n" {
		t.Errorf("%q", r.stdout)
	}
}

// Templates can be built with any maximum life of sessions.
func TestTemplateOfShortSessions(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *service.Options) { o.SessionTTL, o.MaxSessionTTL = time.Minute, 2*time.Minute })
	b.template(belljar.TemplateSpec{Name: "t", BaseImage: "host", Run: []string{"echo built >f"}})
	if r := b.run(onTemplate("t", "cat f")); r.stdout != "built\n" {
		t.Errorf("%q", r.stdout)
	}
}

// A build whose command timeout needs an approval fails, without waiting for one.
func TestTemplateNeedsApproval(t *testing.T) {
	t.Parallel()
	b := newBench(t, asking("timeout_sec>600")).seen(ann)
	own := b.service.As(ann)
	spec := belljar.TemplateSpec{Name: "t", BaseImage: "host", Run: []string{"true"}, TimeoutSec: 601}
	_, err := own.Templates().Build(b.context(), spec)
	wantCode(t, "a long build", err, belljar.CodeConflict, "needs an approval, which builds cannot wait for")
	spec.TimeoutSec = 600
	if _, err := own.Templates().Build(b.context(), spec); err != nil {
		t.Error(err)
	}
	if list, err := own.Sessions().List(b.context(), belljar.SessionQuery{}); err != nil || list.Total != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
