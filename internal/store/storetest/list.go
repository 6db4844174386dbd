package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// list returns the ids of a page and the total.
func list(t *testing.T, s store.Store, q belljar.RunQuery) ([]string, int) {
	t.Helper()
	page, total, err := s.Runs().List(t.Context(), q)
	ok(t, err)
	return idsOf(page), total
}

func listFilters(t *testing.T, s store.Store) {
	a := openRun("ann", 0)
	a.SessionID, a.Runtime, a.BaseImage, a.ImageDigest = "s1", "native", "python:3.11", "sha256:aa"
	insert(t, s, a)
	b := ended(openRun("bob", 1), start().Add(time.Minute), 0, 0)
	b.SessionID, b.Runtime, b.BaseImage, b.ImageDigest = "s1", "docker", "python:3.11", "sha256:bb"
	addEnded(t, s, b)
	c := openRun("ann", 2)
	c.SessionID, c.Runtime, c.BaseImage, c.ImageDigest = "s2", "native", "node:20", "sha256:cc"
	insert(t, s, c)
	for _, each := range []struct {
		q    belljar.RunQuery
		want []string
	}{
		{belljar.RunQuery{}, []string{c.ID, b.ID, a.ID}},
		{belljar.RunQuery{UserID: "ann"}, []string{c.ID, a.ID}},
		{belljar.RunQuery{UserID: "ANN"}, nil},
		{belljar.RunQuery{UserID: "nobody"}, nil},
		{belljar.RunQuery{Phase: belljar.PhaseQueued}, []string{c.ID, a.ID}},
		{belljar.RunQuery{Phase: belljar.PhaseCompleted}, []string{b.ID}},
		{belljar.RunQuery{Runtime: "native"}, []string{c.ID, a.ID}},
		{belljar.RunQuery{BaseImage: "python:3.11"}, []string{b.ID, a.ID}},
		{belljar.RunQuery{BaseImage: "python"}, nil},
		{belljar.RunQuery{ImageDigest: "sha256:bb"}, []string{b.ID}},
		{belljar.RunQuery{SessionID: "s1"}, []string{b.ID, a.ID}},
		{belljar.RunQuery{SessionID: "s1", UserID: "ann"}, []string{a.ID}},
		{belljar.RunQuery{UserID: "ann", Phase: belljar.PhaseQueued, Runtime: "native", BaseImage: "node:20", ImageDigest: "sha256:cc", SessionID: "s2"}, []string{c.ID}},
		{belljar.RunQuery{UserID: "bob", Phase: belljar.PhaseQueued}, nil},
	} {
		for _, sort := range []string{"", "created_at:desc"} {
			each.q.Sort = sort
			got, total := list(t, s, each.q)
			same(t, fmt.Sprintf("%+v", each.q), got, each.want)
			same(t, fmt.Sprintf("total of %+v", each.q), total, len(each.want))
		}
	}
}

func listBounds(t *testing.T, s store.Store) {
	at := func(n int) time.Time { return start().Add(time.Duration(n) * time.Hour).Truncate(time.Microsecond) }
	var ids []string
	for i := range 4 {
		r := openRun("ann", i)
		r = ended(r, at(10+i), 0, 0)
		r.StartedAt = new(at(i))
		addEnded(t, s, r)
		ids = append(ids, r.ID)
	}
	insert(t, s, openRun("ann", 9)) // has neither a start nor an end
	zone := time.FixedZone("there", -7*3600)
	for _, each := range []struct {
		q    belljar.RunQuery
		want []string
	}{
		{belljar.RunQuery{StartedFrom: at(1), StartedTo: at(2)}, ids[1:3]},
		{belljar.RunQuery{StartedFrom: at(1).In(zone), StartedTo: at(2).In(zone)}, ids[1:3]},
		{belljar.RunQuery{StartedFrom: at(1).Add(time.Microsecond), StartedTo: at(2).Add(-time.Microsecond)}, nil},
		{belljar.RunQuery{StartedTo: at(0)}, ids[:1]},
		{belljar.RunQuery{StartedFrom: at(3)}, ids[3:]},
		{belljar.RunQuery{FinishedFrom: at(11), FinishedTo: at(12)}, ids[1:3]},
		{belljar.RunQuery{FinishedTo: at(10)}, ids[:1]},
		{belljar.RunQuery{FinishedFrom: at(13)}, ids[3:]},
		{belljar.RunQuery{FinishedFrom: at(14)}, nil},
		{belljar.RunQuery{StartedFrom: at(1), FinishedTo: at(12), UserID: "ann"}, ids[1:3]},
		{belljar.RunQuery{StartedFrom: at(2), StartedTo: at(1)}, nil},
	} {
		for _, sort := range []string{"created_at:asc", "started_at:asc", "finished_at:asc"} {
			each.q.Sort = sort
			got, total := list(t, s, each.q)
			same(t, fmt.Sprintf("%+v", each.q), got, each.want)
			same(t, fmt.Sprintf("total of %+v", each.q), total, len(each.want))
		}
	}
}

func listOrder(t *testing.T, s store.Store) {
	// By creation: b and c at the same time; a before them although it was inserted last.
	b, c, a := openRun("ann", 5), openRun("ann", 5), openRun("ann", 1)
	// By start: c, then b; a has not started.
	b.StartedAt, c.StartedAt = new(start().Add(20*time.Second)), new(start().Add(10*time.Second))
	for _, r := range []*store.Run{&b, &c} {
		r.Phase = belljar.PhaseRunning
	}
	insert(t, s, b)
	insert(t, s, c)
	insert(t, s, a)
	for sort, want := range map[string][]string{
		"":                 {c.ID, b.ID, a.ID},
		"created_at":       {c.ID, b.ID, a.ID},
		"created_at:asc":   {a.ID, b.ID, c.ID},
		"started_at:desc":  {b.ID, c.ID, a.ID},
		"started_at:asc":   {a.ID, c.ID, b.ID},
		"finished_at:asc":  {b.ID, c.ID, a.ID}, // none has finished: sorted by insertion
		"finished_at:desc": {a.ID, c.ID, b.ID},
	} {
		for _, q := range []belljar.RunQuery{{Sort: sort}, {Sort: sort, UserID: "ann"}, {Sort: sort, Runtime: "native"}, {Sort: sort, UserID: "ann", Runtime: "native"}} {
			got, _ := list(t, s, q)
			same(t, fmt.Sprintf("%+v", q), got, want)
		}
	}
	for _, sort := range []string{"id", "created_at:", "created_at:up", "created_at:desc:asc", "CREATED_AT", "created_at; drop table x"} {
		_, _, err := s.Runs().List(t.Context(), belljar.RunQuery{Sort: sort})
		if sort != "created_at:" {
			wantErr(t, "sort "+sort, err, store.ErrInvalid)
		}
	}
}

func listPages(t *testing.T, s store.Store) {
	var all []string
	for i := range 60 {
		r := openRun("ann", i)
		insert(t, s, r)
		all = append([]string{r.ID}, all...)
	}
	for _, q := range []belljar.RunQuery{{}, {UserID: "ann"}, {Q: "host"}, {Runtime: "native", Sort: "created_at:desc"}} {
		got, total := list(t, s, q)
		same(t, "the default page", got, all[:store.DefaultPage])
		same(t, "total", total, 60)
		for _, limit := range []int{1, 7, 30, 60, 61, belljar.MaxPage} {
			var seen []string
			q := q
			q.Limit = limit
			for q.Offset = 0; q.Offset < 60; q.Offset += limit {
				got, total := list(t, s, q)
				same(t, "total", total, 60)
				seen = append(seen, got...)
			}
			same(t, fmt.Sprintf("pages of %d", limit), seen, all)
		}
		for _, offset := range []int{60, 61, 1 << 40} {
			q := q
			q.Offset = offset
			got, total := list(t, s, q)
			same(t, fmt.Sprintf("offset %d", offset), got, nil)
			same(t, fmt.Sprintf("total at offset %d", offset), total, 60)
		}
	}
}

func listSearch(t *testing.T, s store.Store) {
	add := func(n int, image, message string) string {
		r := openRun("ann", n)
		r.BaseImage, r.Message = image, message
		insert(t, s, r)
		return r.ID
	}
	a := add(0, "Python:3.11", "exit status 1")
	b := add(1, "node:20", "PYTHON was not found")
	c := add(2, "host", "100% done_ É\\")
	for q, want := range map[string][]string{
		"python": {b, a}, "PYTHON": {b, a}, "3.11": {a}, "t": {c, b, a}, "%": {c}, "_": {c}, "\\": {c}, "É": {c}, "é": nil, "0% d": {c},
		"nodex": nil, "host\n100": nil, "\n": nil, "20\npython": nil, strings.Repeat("a", 100_000): nil, "": {c, b, a},
	} {
		got, total := list(t, s, belljar.RunQuery{Q: q})
		same(t, fmt.Sprintf("search for %.30q", q), got, want)
		same(t, fmt.Sprintf("total of %.30q", q), total, len(want))
	}
	got, _ := list(t, s, belljar.RunQuery{Q: "python", UserID: "bob"})
	same(t, "another's", got, nil)
}

// listModel compares hundreds of lists of random runs with a model.
func listModel(t *testing.T, s store.Store) {
	chance := rand.New(rand.NewPCG(3, 14))
	pick := func(of ...string) string { return of[chance.IntN(len(of))] }
	when := func() time.Time {
		return start().Add(time.Duration(chance.IntN(30)) * time.Minute).Truncate(time.Microsecond)
	}
	var all []store.Run
	for range 150 {
		r := openRun(pick("ann", "bob", "cy"), 60*chance.IntN(30))
		r.Runtime, r.BaseImage, r.ImageDigest = pick("native", "docker"), pick("host", "python", "node"), pick("", "sha256:aa")
		r.SessionID, r.Message = pick("", "", "s1", "s2"), pick("", "exit status 1", "Killed")
		switch chance.IntN(3) {
		case 0:
			insert(t, s, r)
		case 1:
			r.Phase, r.StartedAt = belljar.PhaseRunning, new(when())
			insert(t, s, r)
		default:
			r = ended(r, when(), 0, 0)
			r.Phase, r.StartedAt = belljar.Phase(pick("completed", "failed", "killed")), new(when())
			if chance.IntN(4) == 0 {
				r.StartedAt = nil
			}
			addEnded(t, s, r)
		}
		all = append(all, r)
	}
	maybe := func(t time.Time) time.Time {
		if chance.IntN(4) > 0 {
			return time.Time{}
		}
		return t
	}
	for range 400 {
		q := belljar.RunQuery{
			UserID: pick("", "", "ann", "bob"), Phase: belljar.Phase(pick("", "", "queued", "completed")), Runtime: pick("", "", "native"),
			BaseImage: pick("", "", "host"), ImageDigest: pick("", "", "sha256:aa"), SessionID: pick("", "", "s1"), Q: pick("", "", "KILL", "o"),
			StartedFrom: maybe(when()), StartedTo: maybe(when()), FinishedFrom: maybe(when()), FinishedTo: maybe(when()),
			Sort:  pick("", "created_at:asc", "started_at:desc", "started_at:asc", "finished_at:desc", "finished_at:asc"),
			Limit: 1 + chance.IntN(20), Offset: max(0, chance.IntN(40)-20),
		}
		want := model(all, q)
		got, total := list(t, s, q)
		same(t, fmt.Sprintf("total of %+v", q), total, len(want))
		same(t, fmt.Sprintf("page of %+v", q), got, idsOf(want[min(len(want), q.Offset):min(len(want), q.Offset+q.Limit)]))
		if t.Failed() {
			return
		}
	}
}

// model returns the expected list. all is in the order of insertion.
func model(all []store.Run, q belljar.RunQuery) []store.Run {
	var out []store.Run
	is := func(want, got string) bool { return want == "" || want == got }
	within := func(at *time.Time, from, to time.Time) bool {
		return from.IsZero() && to.IsZero() || at != nil && (from.IsZero() || !at.Before(from)) && (to.IsZero() || !at.After(to))
	}
	for _, r := range all {
		text := strings.ToLower(r.BaseImage + "\n" + r.Message)
		if is(q.UserID, r.UserID) && is(string(q.Phase), string(r.Phase)) && is(q.Runtime, r.Runtime) && is(q.BaseImage, r.BaseImage) &&
			is(q.ImageDigest, r.ImageDigest) && is(q.SessionID, r.SessionID) && strings.Contains(text, strings.ToLower(q.Q)) &&
			within(r.StartedAt, q.StartedFrom, q.StartedTo) && within(r.FinishedAt, q.FinishedFrom, q.FinishedTo) {
			out = append(out, r)
		}
	}
	by, direction, _ := strings.Cut(cmp.Or(q.Sort, "created_at:desc"), ":")
	at := func(r store.Run) time.Time {
		t := map[string]*time.Time{"created_at": &r.CreatedAt, "started_at": r.StartedAt, "finished_at": r.FinishedAt}[by]
		if t == nil {
			return time.Time{}
		}
		return *t
	}
	slices.SortStableFunc(out, func(a, b store.Run) int { return at(a).Compare(at(b)) })
	if direction == "desc" {
		slices.Reverse(out)
	}
	return out
}
