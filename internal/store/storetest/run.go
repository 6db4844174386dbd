package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

func runComesBack(t *testing.T, s store.Store) {
	var r store.Run
	fill(&r)
	r.ID, r.Phase, r.FinishedAt, r.ExitCode, r.Artifacts = belljar.NewID(), belljar.PhaseRunning, nil, nil, nil
	r.Log, r.Spec.Secrets, r.Charge = nil, nil, store.Charge{} // a log only for runs stored with Add
	insert(t, s, r)
	same(t, "inserted", getRun(t, s, r.ID), r)

	var changed store.Run
	fill(&changed)
	changed.ID, changed.UserID, changed.CreatedAt = r.ID, r.UserID, r.CreatedAt
	changed.Phase, changed.FinishedAt, changed.Artifacts, changed.Message = belljar.PhaseRunning, nil, nil, "changed"
	changed.Runtime, changed.BaseImage, changed.SessionID, changed.LogGone = "other", "other image", "", false
	changed.Log, changed.Spec.Secrets, changed.Charge = nil, nil, store.Charge{}
	ok(t, s.Runs().Update(t.Context(), changed))
	same(t, "updated", getRun(t, s, r.ID), changed)

	var last store.Run
	fill(&last)
	last.ID, last.UserID, last.CreatedAt, last.Phase = r.ID, r.UserID, r.CreatedAt, belljar.PhaseTimedOut
	last.Log = nil
	ok(t, s.Runs().Finish(t.Context(), last))
	last.Spec, last.Secrets, last.Charge = nil, nil, store.Charge{}
	same(t, "finished", getRun(t, s, r.ID), last)
	page, total, err := s.Runs().List(t.Context(), belljar.RunQuery{})
	ok(t, err)
	last.Artifacts, last.Failure = nil, nil
	same(t, "listed", page, []store.Run{last})
	same(t, "total", total, 1)

	got := getRun(t, s, r.ID)
	for what, at := range map[string]time.Time{"created": got.CreatedAt, "started": *got.StartedAt, "finished": *got.FinishedAt} {
		if at.Location() != time.UTC {
			t.Errorf("%s at %v, want it in UTC", what, at)
		}
	}

	empty := store.Run{Run: belljar.Run{ID: belljar.NewID(), Phase: belljar.PhaseQueued, CreatedAt: start()}}
	insert(t, s, empty)
	same(t, "bare", getRun(t, s, empty.ID), empty)
}

func runIsAdded(t *testing.T, s store.Store) {
	var r store.Run
	fill(&r)
	r.ID, r.UserID, r.Phase = belljar.NewID(), "ann", belljar.PhaseTimedOut
	ok(t, s.Runs().Add(t.Context(), r))
	charge := r.Charge
	r.Spec, r.Secrets, r.Charge = nil, nil, store.Charge{}
	same(t, "added", getRun(t, s, r.ID), r)
	used := func() belljar.UserUsage {
		t.Helper()
		u, err := s.Users().Usage(t.Context(), "ann", *r.FinishedAt)
		ok(t, err)
		return u
	}
	first := used()
	if first.CPUSecondsToday != charge.CPUSeconds || first.ArtifactBytes != r.KeptBytes() || first.LogBytes != r.KeptLog() {
		t.Errorf("used %+v", first)
	}
	again := r
	again.Message = "again"
	ok(t, s.Runs().Add(t.Context(), again))
	ok(t, s.Runs().Finish(t.Context(), again))
	same(t, "added again", getRun(t, s, r.ID), r)
	same(t, "usage after it was added again", used(), first)
	wantErr(t, "update", s.Runs().Update(t.Context(), openRunOf(r)), store.ErrEnded)
	_, err := s.Runs().Insert(t.Context(), openRunOf(r), nil)
	wantErr(t, "insert", err, store.ErrExists)
	wantErr(t, "add one that goes on", s.Runs().Add(t.Context(), openRunOf(r)), store.ErrInvalid)
	page, total, err := s.Runs().List(t.Context(), belljar.RunQuery{UserID: "ann", SessionID: r.SessionID})
	ok(t, err)
	if len(page) > 0 && page[0].Log != nil {
		t.Error("a list has the log")
	}
	if total != 1 || len(page) != 1 || page[0].ID != r.ID {
		t.Errorf("listed %d of %d", len(page), total)
	}
	open, err := s.Runs().Unfinished(t.Context())
	ok(t, err)
	same(t, "unfinished", len(open), 0)
	ok(t, s.Runs().Swept(t.Context(), r.ID))
	if got := getRun(t, s, r.ID); got.Log != nil || !got.LogGone {
		t.Errorf("swept, and its log is %q", got.Log)
	}
}

// openRunOf returns an ended run as it was before its end.
func openRunOf(r store.Run) store.Run {
	r.Phase, r.FinishedAt, r.ExitCode = belljar.PhaseRunning, nil, nil
	return r
}

func runIsCopied(t *testing.T, s store.Store) {
	r := openRun("ann", 0)
	r.Labels, r.Command, r.Spec = map[string]string{"a": "1"}, []string{"true"}, &belljar.RunSpec{Env: map[string]string{"a": "1"}}
	insert(t, s, r)
	r.Labels["a"], r.Command[0], r.Spec.Env["a"] = "2", "false", "2"
	first := getRun(t, s, r.ID)
	same(t, "after a change by who inserted", first.Labels["a"]+first.Command[0]+first.Spec.Env["a"], "1true1")
	first.Labels["a"], first.Command[0], first.Spec.Env["a"] = "3", "false", "3"
	second := getRun(t, s, r.ID)
	same(t, "after a change by who got", second.Labels["a"]+second.Command[0]+second.Spec.Env["a"], "1true1")
}

func runLife(t *testing.T, s store.Store) {
	r := openRun("ann", 0)
	r.Spec = &belljar.RunSpec{Command: []string{"true"}}
	insert(t, s, r)

	other := r
	other.UserID, other.CreatedAt, other.Phase = "eve", start().Add(time.Hour), belljar.PhaseStarting
	ok(t, s.Runs().Update(t.Context(), other))
	got := getRun(t, s, r.ID)
	same(t, "owner and creation after an update", got.UserID+got.CreatedAt.String(), "ann"+r.CreatedAt.UTC().Truncate(time.Microsecond).String())
	same(t, "phase", got.Phase, belljar.PhaseStarting)

	last := ended(other, start().Add(time.Minute), 1, 10)
	ok(t, s.Runs().Finish(t.Context(), last))
	again := last
	again.Phase, again.Message = belljar.PhaseFailed, "no"
	ok(t, s.Runs().Finish(t.Context(), again))
	wantErr(t, "update of one that has ended", s.Runs().Update(t.Context(), other), store.ErrEnded)
	got = getRun(t, s, r.ID)
	same(t, "owner", got.UserID, "ann")
	same(t, "phase", got.Phase, belljar.PhaseCompleted)
	same(t, "message", got.Message, "")
	if got.Spec != nil {
		t.Error("the spec was kept after the end")
	}
	usage, err := s.Users().Usage(t.Context(), "eve", start())
	ok(t, err)
	same(t, "usage of one who is not the owner", usage, belljar.UserUsage{UserID: "eve"})

	ok(t, s.Runs().Delete(t.Context(), r.ID, "unknown"))
	ok(t, s.Runs().Delete(t.Context(), r.ID))
	ok(t, s.Runs().Delete(t.Context()))
	_, err = s.Runs().Get(t.Context(), r.ID)
	wantErr(t, "get after delete", err, store.ErrNotFound)
}

func runRefusals(t *testing.T, s store.Store) {
	ctx := t.Context()
	open := openRun("ann", 0)
	last := ended(open, start(), 1, 1)
	_, err := s.Runs().Get(ctx, open.ID)
	wantErr(t, "get", err, store.ErrNotFound)
	wantErr(t, "update", s.Runs().Update(ctx, open), store.ErrNotFound)
	wantErr(t, "finish", s.Runs().Finish(ctx, last), store.ErrNotFound)
	usage, err := s.Users().Usage(ctx, "ann", start())
	ok(t, err)
	same(t, "usage after a finish that failed", usage, belljar.UserUsage{UserID: "ann"})

	insert(t, s, open)
	_, err = s.Runs().Insert(ctx, open, nil)
	wantErr(t, "insert twice", err, store.ErrExists)

	noID, noPhase, noEnd, halfEnded := open, open, last, open
	noID.ID, noPhase.Phase, noEnd.FinishedAt, halfEnded.FinishedAt = "", "bogus", nil, new(start())
	for what, r := range map[string]store.Run{"ended": last, "no id": noID, "no phase": noPhase, "half ended": halfEnded} {
		_, err := s.Runs().Insert(ctx, r, nil)
		wantErr(t, "insert: "+what, err, store.ErrInvalid)
		wantErr(t, "update: "+what, s.Runs().Update(ctx, r), store.ErrInvalid)
	}
	wantErr(t, "finish without a time", s.Runs().Finish(ctx, noEnd), store.ErrInvalid)
	wantErr(t, "finish one that goes on", s.Runs().Finish(ctx, open), store.ErrInvalid)
	same(t, "after all that", getRun(t, s, open.ID), open)
}

func runUnfinished(t *testing.T, s store.Store) {
	var want []string
	for i := range 6 {
		r := openRun("ann", 10-i) // inserted newest first
		r.Spec = &belljar.RunSpec{Command: []string{fmt.Sprint(i)}}
		r.Phase = []belljar.Phase{belljar.PhaseQueued, belljar.PhaseStarting, belljar.PhaseRunning}[i%3]
		insert(t, s, r)
		want = append([]string{r.ID}, want...)
	}
	addEnded(t, s, ended(openRun("ann", 1), start(), 0, 0))
	got, err := s.Runs().Unfinished(t.Context())
	ok(t, err)
	same(t, "oldest first", idsOf(got), want)
	if got[0].Spec == nil || got[0].Spec.Command[0] != "5" {
		t.Errorf("spec %+v, want that of run 5", got[0].Spec)
	}
}

func runSweep(t *testing.T, s store.Store) {
	ctx := t.Context()
	var ids []string
	for i := range 4 {
		r := ended(openRun("ann", i), start().Add(time.Duration(10-i)*time.Hour), 0, 100)
		r.SetArtifacts([]belljar.Artifact{{Path: "a", Size: 100}})
		addEnded(t, s, r)
		ids = append(ids, r.ID)
	}
	alive := openRun("ann", 0)
	insert(t, s, alive)
	sweepable := func(what string, hours int, bytes bool, limit int, want ...string) {
		t.Helper()
		got, err := s.Runs().Sweepable(ctx, start().Add(time.Duration(hours)*time.Hour), bytes, limit)
		ok(t, err)
		same(t, what, idsOf(got), want)
		for _, r := range got {
			if r.Artifacts != nil {
				t.Errorf("%s: artifacts are listed", what)
			}
		}
	}
	bytes := func(want int64) {
		t.Helper()
		usage, err := s.Users().Usage(ctx, "ann", start())
		ok(t, err)
		same(t, "bytes", usage.ArtifactBytes, want)
	}
	sweepable("oldest end first", 100, true, 10, ids[3], ids[2], ids[1], ids[0])
	sweepable("limit", 100, true, 2, ids[3], ids[2])
	sweepable("before, not at", 8, true, 10, ids[3])
	sweepable("nothing that old", 7, true, 10)
	bytes(400)

	ok(t, s.Runs().Swept(ctx, ids[3], ids[2], "unknown", alive.ID))
	bytes(200)
	ok(t, s.Runs().Swept(ctx, ids[3]))
	ok(t, s.Runs().Swept(ctx))
	bytes(200)
	sweepable("what has bytes", 100, true, 10, ids[1], ids[0])
	sweepable("rows", 100, false, 10, ids[3], ids[2], ids[1], ids[0])
	got := getRun(t, s, ids[3])
	list, err := got.ArtifactList()
	ok(t, err)
	if !got.LogGone || !got.ArtifactsGone || len(list) != 1 {
		t.Errorf("swept: log gone %t, artifacts gone %t, %d on record; want true, true, 1", got.LogGone, got.ArtifactsGone, len(list))
	}
	if got := getRun(t, s, alive.ID); got.LogGone || got.ArtifactsGone {
		t.Error("a run that has not ended was marked as swept")
	}
	ok(t, s.Runs().Delete(ctx, ids[3], ids[0]))
	bytes(100)
	sweepable("rows after delete", 100, false, 10, ids[2], ids[1])

	logOnly := ended(openRun("ann", 0), start(), 0, 50)
	logOnly.LogGone = true
	addEnded(t, s, logOnly)
	sweepable("one that has its artifacts still", 1, true, 10, logOnly.ID)
}

// hostile returns texts that commonly break programs.
func hostile() []string {
	return []string{
		"", " ", "'", `"`, "`", `\`, "%", "_", ";", "--", "' OR '1'='1", "'; DROP TABLE sandbox_runs; --", "?", "?1", ":id", "$1", "@x",
		"null", "NULL", "0", "1e3", "0x10", "true", "{}", "[]", `{"id":"x"}`, "\x00", "a\x00b", "\n", "\r\n", "\t", "\u007f", "\u2028", "\ufeff",
		"é", "e\u0301", "İ", "ß", "日本語", "👩‍👩‍👧‍👦", "\u202eabc", "../../etc/passwd", "/", strings.Repeat("x", 10_000), "<script>", "a&b",
	}
}

func runHostileTexts(t *testing.T, s store.Store) {
	ctx := t.Context()
	for i, text := range hostile() {
		if text == "" {
			continue
		}
		r := openRun(text, i)
		r.ID = "id" + text
		r.Message, r.BaseImage, r.ImageDigest, r.SessionID, r.Runtime = text, text, text, text, text
		r.Labels = map[string]string{text: text}
		insert(t, s, r)
		same(t, fmt.Sprintf("%.20q", text), getRun(t, s, r.ID), r)
		for _, q := range []belljar.RunQuery{{UserID: text}, {SessionID: text}, {BaseImage: text}, {ImageDigest: text}, {Runtime: text}} {
			page, total, err := s.Runs().List(ctx, q)
			ok(t, err)
			if total != 1 || len(page) != 1 || page[0].ID != r.ID {
				t.Errorf("%.60q: %d runs, %d in all, want the one", fmt.Sprint(q), len(page), total)
			}
		}
		page, _, err := s.Runs().List(ctx, belljar.RunQuery{Q: text, Limit: belljar.MaxPage})
		ok(t, err)
		if !slices.Contains(idsOf(page), r.ID) {
			t.Errorf("search for %.20q does not find it", text)
		}
		for _, found := range page {
			if !strings.Contains(strings.ToLower(found.Message), strings.ToLower(text)) {
				t.Errorf("search for %.20q finds %.20q", text, found.Message)
			}
		}
		if page, _, err := s.Runs().List(ctx, belljar.RunQuery{Phase: belljar.Phase(text)}); err != nil || len(page) > 0 {
			t.Errorf("phase %.20q: %d runs, error %v", text, len(page), err)
		}
		_, _, err = s.Runs().List(ctx, belljar.RunQuery{Sort: text})
		wantErr(t, fmt.Sprintf("sort %.20q", text), err, store.ErrInvalid)
		_, _, err = s.Runs().List(ctx, belljar.RunQuery{Sort: "created_at:" + text})
		wantErr(t, fmt.Sprintf("sort created_at:%.20q", text), err, store.ErrInvalid)
	}
	_, total, err := s.Runs().List(ctx, belljar.RunQuery{})
	ok(t, err)
	same(t, "total", total, len(hostile())-1)
}
