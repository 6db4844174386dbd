//go:build linux

package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

func (b *bench) sweep() {
	b.t.Helper()
	if err := b.service.Sweep(b.context()); err != nil {
		b.t.Fatalf("sweep: %v", err)
	}
}

// used returns how many bytes the user of the command line has stored.
func (b *bench) used() int64 {
	b.t.Helper()
	me, err := b.service.As(service.Local()).Node().Me(b.context())
	if err != nil {
		b.t.Fatal(err)
	}
	return me.Used.ArtifactBytes
}

// A sweep first removes the bytes, and the end stays readable. Later it removes the row.
func TestSweep(t *testing.T) {
	clock := newHourglass()
	var o service.Options
	b := newBench(t, func(o *service.Options) { o.Clock = clock }, parts(&o))
	req := keyed("k", "printf text > f; ln -s f l; echo out")
	req.CapturePatterns = []string{"*"}
	r := b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	clock.pass(23 * time.Hour)
	b.sweep()
	if got := read(t, b, r.ID, "f"); got != "text" || b.used() != 4 {
		t.Errorf("within its time: %q, %d bytes used", got, b.used())
	}
	clock.pass(2 * time.Hour)
	b.sweep()
	if o.Blobs.(*blobs).count() != 0 || b.used() != 0 {
		t.Errorf("%d artifacts, %d bytes used", o.Blobs.(*blobs).count(), b.used())
	}
	if _, err := o.Logs.Open(r.ID); err == nil {
		t.Error("the log is still there")
	}
	for _, from := range []uint64{0, 1, r.frames[len(r.frames)-1].Seq, belljar.Tail} {
		var got []belljar.Frame
		for f, err := range b.Frames(t.Context(), r.ID, from) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, f)
		}
		if len(got) != 1 || got[0].Event != belljar.EventEnd || got[0].Seq != r.frames[len(r.frames)-1].Seq || got[0].Data["phase"] != "completed" {
			t.Errorf("from %d: %+v", from, got)
		}
	}
	list, err := b.Artifacts.List(t.Context(), r.ID)
	if err != nil || len(list) != 2 || list[0].Skipped != "expired" || list[1].LinkTarget != "f" {
		t.Errorf("artifacts %+v, %v", list, err)
	}
	if _, _, err := b.Artifacts.Open(t.Context(), r.ID, "f", 0); belljar.CodeOf(err) != belljar.CodeNotFound || !strings.Contains(err.Error(), "expired") {
		t.Errorf("open: %v", err)
	}
	keys, err := b.service.As(service.Local()).Admin().Idempotency(t.Context(), belljar.KeyQuery{})
	if err != nil || len(keys) != 0 {
		t.Errorf("keys %v, %v", keys, err)
	}
	clock.pass(31 * 24 * time.Hour)
	b.sweep()
	if _, err := b.Get(t.Context(), r.ID); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("after its days: %v", err)
	}
}

// Daily usage and ended keys are removed after the days of records. A key that has not ended stays, however old it is.
func TestSweepUsers(t *testing.T) {
	clock := newHourglass()
	var o service.Options
	b := newBench(t, func(o *service.Options) { o.Clock = clock }, parts(&o))
	admin := b.service.As(service.Local()).Admin()
	day := clock.Now()
	if err := o.Store.Users().Charge(t.Context(), "ann", store.Charge{CPUSeconds: 2}, day); err != nil {
		t.Fatal(err)
	}
	for _, ttl := range []float64{0, 60} {
		if _, err := admin.CreateToken(t.Context(), belljar.TokenSpec{UserID: "ann", TTLSec: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	for _, kept := range []bool{true, false} {
		b.sweep()
		used, err := o.Store.Users().Usage(t.Context(), "ann", day)
		if err != nil || (used.CPUSecondsToday == 2) != kept {
			t.Errorf("kept %v: %+v, %v", kept, used, err)
		}
		if keys, err := admin.Tokens(t.Context()); err != nil || (len(keys) == 2) != kept || len(keys) == 0 {
			t.Errorf("kept %v: %+v, %v", kept, keys, err)
		}
		clock.pass(32 * 24 * time.Hour)
	}
}

// Orphaned bytes are removed. Those of a live run stay.
func TestSweepOrphans(t *testing.T) {
	clock := newHourglass()
	var o service.Options
	b := newBench(t, func(o *service.Options) { o.Clock = clock }, parts(&o))
	run, end := b.busy()
	for _, id := range []string{run.ID, "nobody"} {
		if _, err := o.Blobs.Put(t.Context(), blob.Key{UserID: "local", RunID: id, Path: "x"}, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	b.sweep()
	if n := o.Blobs.(*blobs).count(); n != 1 {
		t.Errorf("%d are left", n)
	}
	end()
	b.follow(run.ID)
	// Not every sweep searches for orphans, because the search looks up all existing bytes.
	if _, err := o.Blobs.Put(t.Context(), blob.Key{UserID: "local", RunID: "later", Path: "x"}, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{2, 1} {
		if b.sweep(); o.Blobs.(*blobs).count() != want {
			t.Errorf("%d are left, want %d", o.Blobs.(*blobs).count(), want)
		}
		clock.pass(6 * time.Hour)
	}
}

// A server sweeps on its own repeatedly, until it is closed.
func TestSweepsByItself(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock = clock })
	b.recover()
	for range 2 {
		req := shell("echo x > f")
		req.CapturePatterns = []string{"f"}
		b.run(req)
		if b.used() == 0 {
			t.Fatal("nothing was captured")
		}
		clock.pass(25 * time.Hour)
		if n := b.used(); n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	}
	if err := b.service.Close(); err != nil {
		t.Fatal(err)
	}
	clock.pass(25 * time.Hour)
}

// A service that keeps ended runs for minutes sweeps as often, and removes their records and logs. The rest of the policy is the usual one.
func TestSweepsWithinKeep(t *testing.T) {
	clock := newHourglass()
	var o service.Options
	b := newBench(t, func(o *service.Options) {
		o.Clock, o.Keep, o.Quota.LogMB = clock, 2*time.Minute, 1
		o.Limits.LogBytes = 2 << 20
	}, parts(&o))
	b.recover()
	r := b.run(shell("head -c 1500000 /dev/zero"))
	_, err := b.Start(t.Context(), shell("true"))
	if hint := belljar.HintOf(err); belljar.CodeOf(err) != belljar.CodeQuotaExceeded || !strings.Contains(hint, "2 minutes after") {
		t.Errorf("above the quota: %v, hint %q", err, hint)
	}
	clock.pass(time.Minute)
	if _, err := b.Get(t.Context(), r.ID); err != nil {
		t.Errorf("within its time: %v", err)
	}
	clock.pass(4 * time.Minute)
	if _, err := b.Get(t.Context(), r.ID); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("after its time: %v", err)
	}
	if _, err := o.Logs.Open(r.ID); err == nil {
		t.Error("the log is still there")
	}
	b.run(shell("true")).want(t, belljar.PhaseCompleted, 0, "")
}

// stiff is a blob store in which one user's bytes cannot be deleted.
type stiff struct {
	*blobs
	of string
}

func (s *stiff) Delete(ctx context.Context, userID, runID string) error {
	if userID == s.of {
		return errors.New("read-only file system")
	}
	return s.blobs.Delete(ctx, userID, runID)
}

// A full step of old runs whose bytes cannot be removed does not block others. They are removed when that becomes possible.
func TestSweepBehindFailures(t *testing.T) {
	clock, held := newHourglass(), &stiff{newBlobs(), "mallory"}
	var o service.Options
	b := newBench(t, func(o *service.Options) { o.Clock, o.Blobs = clock, held }, parts(&o))
	ended := func(user string) string {
		t.Helper()
		row, at := leftRow(belljar.PhaseCompleted, nil), clock.Now()
		row.UserID, row.FinishedAt = user, &at
		if err := o.Store.Runs().Add(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		clock.pass(time.Second)
		return row.ID
	}
	swept := func(id string) bool {
		t.Helper()
		row, err := o.Store.Runs().Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return row.LogGone && row.ArtifactsGone
	}
	first := ended("mallory")
	for range 99 {
		ended("mallory")
	}
	last := ended("ann")
	clock.pass(25 * time.Hour)
	if err := b.service.Sweep(t.Context()); err == nil {
		t.Error("no failure is reported")
	}
	if _ = b.service.Sweep(t.Context()); !swept(last) || swept(first) {
		t.Errorf("swept: the last %t, the first %t", swept(last), swept(first))
	}
	held.of = ""
	if b.sweep(); !swept(first) {
		t.Error("the first stays, although its bytes can be removed now")
	}
}

// stuckBlobs are blobs that cannot be removed. They count the searches for orphans.
type stuckBlobs struct {
	*blobs
	searches int
}

func (b *stuckBlobs) Delete(context.Context, string, string) error { return errors.New("stuck") }

func (b *stuckBlobs) Orphans(ctx context.Context, before time.Time, known func(string) bool) ([]blob.Key, error) {
	b.searches++
	return b.blobs.Orphans(ctx, before, known)
}

// An orphan that cannot be removed does not make every sweep search for orphans.
func TestSweepOfAStuckOrphan(t *testing.T) {
	clock, stuck := newHourglass(), &stuckBlobs{blobs: newBlobs()}
	b := newBench(t, func(o *service.Options) { o.Clock, o.Blobs = clock, stuck })
	if _, err := stuck.Put(t.Context(), blob.Key{UserID: "local", RunID: "orphan", Path: "x"}, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if err := b.service.Sweep(b.context()); err == nil {
		t.Error("the orphan was removed")
	}
	b.sweep()
	clock.pass(6 * time.Hour)
	if err := b.service.Sweep(b.context()); err == nil || stuck.searches != 2 {
		t.Errorf("%v, after %d searches", err, stuck.searches)
	}
}
