package storetest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

func usageOf(t *testing.T, s store.Store, user string, at time.Time) belljar.UserUsage {
	t.Helper()
	u, err := s.Users().Usage(t.Context(), user, at)
	ok(t, err)
	return u
}

func usageOnce(t *testing.T, s store.Store) {
	same(t, "of a stranger", usageOf(t, s, "ann", start()), belljar.UserUsage{UserID: "ann"})
	r := ended(openRun("ann", 0), start().Add(time.Minute), 1.5, 100)
	r.LogBytes, r.Egress = 70, &belljar.EgressReport{BytesIn: 900, BytesOut: 99}
	addEnded(t, s, r)
	want := belljar.UserUsage{UserID: "ann", ArtifactBytes: 100, LogBytes: 70, CPUSecondsToday: 1.5, EgressBytesToday: 999}
	same(t, "after one", usageOf(t, s, "ann", start()), want)
	for range 3 {
		ok(t, s.Runs().Finish(t.Context(), r))
	}
	same(t, "after finishing it again", usageOf(t, s, "ann", start()), want)

	nothing := ended(openRun("ann", 1), start(), 0, 0)
	nothing.ResourceUsage, nothing.LogBytes = nil, 7
	addEnded(t, s, nothing)
	noFigure := ended(openRun("ann", 2), start(), 0, 50)
	noFigure.ResourceUsage.CPUTimeSec, noFigure.Egress = nil, &belljar.EgressReport{BytesOut: 1}
	addEnded(t, s, noFigure)
	gone := ended(openRun("ann", 3), start(), 0.5, 1000)
	gone.ArtifactsGone, gone.LogBytes = true, 30
	addEnded(t, s, gone)
	noLog := ended(openRun("ann", 4), start(), 0, 11)
	noLog.LogGone, noLog.LogBytes = true, 5000
	addEnded(t, s, noLog)
	want.ArtifactBytes, want.LogBytes, want.CPUSecondsToday, want.EgressBytesToday = 161, 107, 2, 1000
	same(t, "after runs without figures", usageOf(t, s, "ann", start()), want)
	inside := ended(openRun("ann", 5), start(), 64, 0) // its figures overlap with those of others
	inside.SessionID, inside.Egress, inside.Charge = "session", &belljar.EgressReport{BytesIn: 64}, store.Charge{CPUSeconds: 0.25, EgressBytes: 3}
	addEnded(t, s, inside)
	counted := ended(openRun("ann", 6), start(), 64, 0) // the host has a figure
	counted.Charge.CPUSeconds = 0.125
	addEnded(t, s, counted)
	ok(t, s.Users().Charge(t.Context(), "ann", store.Charge{CPUSeconds: 0.5, EgressBytes: 7}, start()))
	ok(t, s.Users().Charge(t.Context(), "ann", store.Charge{CPUSeconds: 1, EgressBytes: 1}, start().Add(24*time.Hour)))
	want.CPUSecondsToday, want.EgressBytesToday = 2.875, 1010
	same(t, "after a run in a session, a run with the host's figure, and the session", usageOf(t, s, "ann", start()), want)
	ok(t, s.Runs().Swept(t.Context(), gone.ID, nothing.ID, noFigure.ID, noLog.ID))
	want.ArtifactBytes, want.LogBytes = 100, 70
	same(t, "after a sweep", usageOf(t, s, "ann", start()), want)
}

func usageDays(t *testing.T, s store.Store) {
	midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	here := time.FixedZone("here", 5*3600)
	addEnded(t, s, ended(openRun("ann", 0), midnight.Add(-time.Microsecond).In(here), 1, 0)) // in local time: the next day
	addEnded(t, s, ended(openRun("ann", 1), midnight, 2, 0))
	addEnded(t, s, ended(openRun("ann", 2), midnight.Add(24*time.Hour-time.Microsecond), 4, 0))
	addEnded(t, s, ended(openRun("bob", 3), midnight, 8, 0))
	for _, each := range []struct {
		at   time.Time
		want float64
	}{
		{midnight.Add(-time.Second), 1}, {midnight, 6}, {midnight.Add(3 * time.Hour).In(here), 6}, {midnight.Add(24*time.Hour - 1).In(here), 6},
		{midnight.Add(24 * time.Hour), 0}, {midnight.Add(-25 * time.Hour), 0},
	} {
		same(t, fmt.Sprint("on the day of ", each.at), usageOf(t, s, "ann", each.at).CPUSecondsToday, each.want)
	}
	for _, want := range []int{1, 0} {
		n, err := s.Users().DeleteBefore(t.Context(), midnight.Add(24*time.Hour-1).In(here))
		ok(t, err)
		same(t, "deleted", n, want)
	}
	same(t, "the day before, deleted", usageOf(t, s, "ann", midnight.Add(-1)).CPUSecondsToday, 0.0)
	same(t, "the day", usageOf(t, s, "ann", midnight).CPUSecondsToday+usageOf(t, s, "bob", midnight).CPUSecondsToday, 14.0)
}

// usageModel makes random changes and checks that usage always equals the sum over the stored runs that were not swept.
func usageModel(t *testing.T, s store.Store) {
	ctx := t.Context()
	chance := rand.New(rand.NewPCG(1, 618))
	users := []string{"ann", "bob"}
	type state struct {
		run         store.Run
		bytes, logs int64
	}
	var all []*state
	cpu := map[string]float64{}
	for range 400 {
		if len(all) == 0 || chance.IntN(3) == 0 {
			r := openRun(users[chance.IntN(2)], chance.IntN(100))
			insert(t, s, r)
			all = append(all, &state{run: r})
			continue
		}
		i := chance.IntN(len(all))
		it := all[i]
		switch chance.IntN(4) {
		case 0, 1:
			last := ended(it.run, start(), 0.25*float64(chance.IntN(8)), int64(chance.IntN(1000)))
			last.LogBytes = int64(chance.IntN(1000))
			ok(t, s.Runs().Finish(ctx, last))
			if it.run.FinishedAt == nil {
				cpu[it.run.UserID] += *last.ResourceUsage.CPUTimeSec
				it.run, it.bytes, it.logs = last, last.ResourceUsage.ArtifactBytes, last.LogBytes
			}
		case 2:
			ok(t, s.Runs().Swept(ctx, it.run.ID))
			it.bytes, it.logs = 0, 0
		default:
			ok(t, s.Runs().Delete(ctx, it.run.ID))
			all = append(all[:i], all[i+1:]...)
		}
	}
	var bytes int64
	keep, old := 0, 0
	for _, user := range users {
		want := belljar.UserUsage{UserID: user, CPUSecondsToday: cpu[user]}
		for _, it := range all {
			if it.run.UserID == user {
				want.ArtifactBytes += it.bytes
				want.LogBytes += it.logs
			}
		}
		got := usageOf(t, s, user, start())
		all, recent := recordedOf(t, s, user)
		bytes += want.ArtifactBytes + want.LogBytes + all
		if want.ArtifactBytes+want.LogBytes+recent > 0 {
			keep++
		} else if all > 0 {
			old++
		}
		if got.ArtifactBytes != want.ArtifactBytes || got.LogBytes != want.LogBytes || math.Abs(got.CPUSecondsToday-want.CPUSecondsToday) > 1e-9 {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if keep == 0 {
		keep = old
	}
	if all, by, err := s.Users().Kept(ctx); all != bytes || by != keep || err != nil {
		t.Errorf("%d bytes kept by %d users, %v; want %d by %d", all, by, err, bytes, keep)
	}
	for _, it := range all {
		ok(t, s.Runs().Delete(ctx, it.run.ID))
	}
	for _, user := range users {
		all, recent := recordedOf(t, s, user)
		same(t, "records of deleted runs", []int64{all, recent}, []int64{0, 0})
	}
}

func recordedOf(t *testing.T, s store.Store, user string) (all, recent int64) {
	t.Helper()
	all, recent, err := s.Users().Recorded(t.Context(), user)
	ok(t, err)
	return all, recent
}

// usageRecords checks that the record of a run counts from its end, however that is stored, until it is deleted, and that of an open run never.
func usageRecords(t *testing.T, s store.Store) {
	ctx := t.Context()
	const long = 16 << 10
	run := func(n int) store.Run {
		r := openRun("ann", n)
		r.Command, r.Labels = []string{strings.Repeat("x", long)}, map[string]string{"k": strings.Repeat("v", long)}
		return r
	}
	want := func(when, user string, all, recent int64) {
		t.Helper()
		a, r := recordedOf(t, s, user)
		same(t, when, []int64{a, r}, []int64{all, recent})
	}
	insert(t, s, run(0))
	want("an open run", "ann", 0, 0)
	first, second := ended(run(1), start(), 0, 0), ended(run(2), start(), 0, 0)
	addEnded(t, s, first)
	ok(t, s.Runs().Finish(ctx, first))
	n, _ := recordedOf(t, s, "ann")
	if n < 2*long || n > 2*long+2000 {
		t.Errorf("a record of %d bytes", n)
	}
	want("one run", "ann", n, n)
	for range 2 {
		ok(t, s.Runs().Add(ctx, second))
	}
	want("two runs", "ann", 2*n, 2*n)
	all, by, err := s.Users().Kept(ctx)
	ok(t, err)
	same(t, "kept", []any{all, by}, []any{2 * n, 1})
	for range 2 {
		ok(t, s.Runs().Swept(ctx, second.ID))
		want("after a sweep", "ann", 2*n, n)
	}
	for range 2 {
		ok(t, s.Runs().Delete(ctx, second.ID, "unknown"))
		want("after a deletion", "ann", n, n)
	}
	ok(t, s.Runs().Delete(ctx, first.ID))
	want("after both", "ann", 0, 0)

	listed := ended(run(3), start(), 0, 0)
	listed.UserID, listed.LogGone = "bob", true
	listed.Message, listed.Artifacts = strings.Repeat("m", long), json.RawMessage(`["`+strings.Repeat("a", long)+`"]`)
	addEnded(t, s, listed)
	old, recent := recordedOf(t, s, "bob")
	if old < n+2*long || recent != 0 {
		t.Errorf("with a message and artifacts, and without a log: %d bytes, %d of them recent", old, recent)
	}
	all, by, err = s.Users().Kept(ctx)
	ok(t, err)
	same(t, "kept, with old records only", []any{all, by}, []any{old, 1})
	addEnded(t, s, first)
	all, by, err = s.Users().Kept(ctx)
	ok(t, err)
	same(t, "kept, with a user who stores an old record only", []any{all, by}, []any{n + old, 1})
	ok(t, s.Runs().Delete(ctx, first.ID))
	ok(t, s.Runs().Delete(ctx, listed.ID))
	want("after the deletion", "bob", 0, 0)
}

// usageSessions checks that the record of a session counts from its end until it is deleted.
func usageSessions(t *testing.T, s store.Store) {
	ctx := t.Context()
	const long, many = 16 << 10, 600 // more than one write of a sweep deletes
	session := func(n int) store.Session {
		x := openSession("ann", n)
		x.Labels = map[string]string{"k": strings.Repeat("v", long)}
		return x
	}
	want := func(when string, all int64) {
		t.Helper()
		a, r := recordedOf(t, s, "ann")
		same(t, when, []int64{a, r}, []int64{all, 0})
	}
	x, open := session(1), session(2)
	addSession(t, s, x)
	addSession(t, s, open)
	want("open sessions", 0)
	ok(t, s.Sessions().Update(ctx, closed(x, start())))
	n, _ := recordedOf(t, s, "ann")
	if n < long || n > long+1000 {
		t.Errorf("a record of %d bytes", n)
	}
	ok(t, s.Sessions().Update(ctx, closed(x, start())))
	ok(t, s.Sessions().Update(ctx, open))
	want("one session, ended twice", n)
	all, by, err := s.Users().Kept(ctx)
	ok(t, err)
	same(t, "kept", []any{all, by}, []any{n, 1})
	for i := range many {
		x := openSession("ann", i)
		addSession(t, s, closed(x, start().Add(time.Duration(1+i)*time.Second)))
	}
	left, _ := recordedOf(t, s, "ann")
	if left <= n {
		t.Errorf("%d bytes with %d more sessions", left, many)
	}
	_, err = s.Sessions().DeleteEnded(ctx, start().Add(time.Second))
	ok(t, err)
	want("after the deletion of the first", left-n)
	_, err = s.Sessions().DeleteEnded(ctx, start().Add(time.Hour))
	ok(t, err)
	want("after all", 0)
}

func usageTop(t *testing.T, s store.Store) {
	ctx := t.Context()
	for i, user := range []string{"ann", "bob", "cy", "dee"} {
		addEnded(t, s, ended(openRun(user, i), start(), float64(i), []int64{100, 300, 100, 0}[i]))
	}
	addEnded(t, s, ended(openRun("bob", 9), start().Add(48*time.Hour), 50, 0))
	records := int64(0)
	for _, user := range []string{"ann", "bob", "cy", "dee"} {
		all, _ := recordedOf(t, s, user)
		records += all
	}
	if all, by, err := s.Users().Kept(ctx); all != 500+records || by != 4 || err != nil {
		t.Errorf("%d bytes kept by %d users, %v", all, by, err)
	}
	want := []belljar.UserUsage{
		{UserID: "bob", ArtifactBytes: 300, CPUSecondsToday: 1}, {UserID: "ann", ArtifactBytes: 100}, {UserID: "cy", ArtifactBytes: 100, CPUSecondsToday: 2},
		{UserID: "dee", CPUSecondsToday: 3},
	}
	got, err := s.Users().Top(ctx, 0, start())
	ok(t, err)
	same(t, "all", got, want)
	got, err = s.Users().Top(ctx, 2, start())
	ok(t, err)
	same(t, "two", got, want[:2])

	_, err = s.Users().Quota(ctx, "ann")
	wantErr(t, "quota", err, store.ErrNotFound)
	for _, quota := range []belljar.Quota{{ConcurrentRuns: 3, CPUSecondsPerDay: 1.5, ArtifactMB: 7, LogMB: 8, MemoryMB: 9, CPU: 2.5, EgressMBPerDay: 11}, {}, {ArtifactMB: 1}} {
		ok(t, s.Users().SetQuota(ctx, "ann", &quota))
		got, err := s.Users().Quota(ctx, "ann")
		ok(t, err)
		same(t, "quota", got, quota)
	}
	for range 2 {
		ok(t, s.Users().SetQuota(ctx, "ann", nil))
		_, err = s.Users().Quota(ctx, "ann")
		wantErr(t, "deleted quota", err, store.ErrNotFound)
	}
	for _, user := range hostile() {
		ok(t, s.Users().SetQuota(ctx, user, &belljar.Quota{ConcurrentRuns: len(user)}))
	}
	for _, user := range hostile() {
		got, err := s.Users().Quota(ctx, user)
		ok(t, err)
		same(t, fmt.Sprintf("quota of %.20q", user), got.ConcurrentRuns, len(user))
	}
}
