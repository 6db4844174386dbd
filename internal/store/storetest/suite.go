// Package storetest is the conformance suite of the store contract. Every store must pass it.
package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// Options configure the suite.
type Options struct {
	// Open creates an empty store. The suite closes it. Required.
	Open func(t *testing.T) store.Store
	// Reopen closes a store and opens it again with its data; nil for a store that does not persist.
	Reopen func(t *testing.T, s store.Store) store.Store
}

// Run runs the suite.
func Run(t *testing.T, opts Options) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, s store.Store)
	}{
		{"run/every field comes back", runComesBack},
		{"run/what is kept is a copy", runIsCopied},
		{"run/one that has ended is added", runIsAdded},
		{"run/life", runLife},
		{"run/refusals", runRefusals},
		{"run/unfinished", runUnfinished},
		{"run/sweep", runSweep},
		{"run/hostile texts", runHostileTexts},
		{"list/filters", listFilters},
		{"list/bounds are inclusive", listBounds},
		{"list/order and ties", listOrder},
		{"list/pages", listPages},
		{"list/search", listSearch},
		{"list/against a model", listModel},
		{"key/both or neither", keyBothOrNeither},
		{"key/expiry", keyExpiry},
		{"key/race", keyRace},
		{"key/admin", keyAdmin},
		{"usage/finish adds once", usageOnce},
		{"usage/days", usageDays},
		{"usage/adds up", usageModel},
		{"usage/top and quota", usageTop},
		{"usage/records", usageRecords},
		{"usage/records of sessions", usageSessions},
		{"session/every field comes back", sessionComesBack},
		{"session/life", sessionLife},
		{"session/scope key", sessionScopeKey},
		{"session/scope key given up", sessionScopeGivenUp},
		{"session/key prefix", sessionKeyPrefix},
		{"session/scope key race", sessionRace},
		{"token/life", tokenLife},
		{"token/deleted", tokensDeleted},
		{"token/sign-in", signInLife},
		{"secret/life", secretLife},
		{"secret/sealed in records", secretsAreSealed},
		{"approval/life", approvalLife},
		{"approval/race", approvalRace},
		{"snapshot/life", snapshotLife},
		{"template/life", templateLife},
		{"failed writes change nothing", failedWrites},
		{"context/ended", contextEnded},
		{"close", closeStore},
		{"everything at once", everything},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := opts.Open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			if err := s.Ping(t.Context()); err != nil {
				t.Fatalf("ping: %v", err)
			}
			c.test(t, s)
		})
	}
	if opts.Reopen != nil {
		t.Run("reopen keeps everything", func(t *testing.T) {
			t.Parallel()
			reopens(t, opts)
		})
	}
}

// start returns the start time of the tests. It has a time zone and nanoseconds, which no store keeps.
func start() time.Time {
	return time.Date(2026, 3, 1, 9, 30, 0, 123456789, time.FixedZone("here", 2*3600))
}

// openRun returns a queued run of user, created n seconds after start.
func openRun(user string, n int) store.Run {
	return store.Run{Run: belljar.Run{
		ID: belljar.NewID(), UserID: user, Phase: belljar.PhaseQueued, SpecVersion: "1.0", Runtime: "native",
		BaseImage: "host", CreatedAt: start().Add(time.Duration(n) * time.Second),
	}}
}

// ended returns r after its end at a time, with its CPU seconds and artifact bytes.
func ended(r store.Run, at time.Time, cpu float64, bytes int64) store.Run {
	r.Phase, r.ExitCode, r.StartedAt, r.FinishedAt = belljar.PhaseCompleted, new(0), new(r.CreatedAt), &at
	r.ResourceUsage = &belljar.ResourceUsage{CPUTimeSec: &cpu, ArtifactBytes: bytes}
	r.LastSeq = 7
	return r
}

// addEnded inserts and finishes a run.
func addEnded(t *testing.T, s store.Store, r store.Run) {
	t.Helper()
	open := r
	open.Phase, open.ExitCode, open.FinishedAt, open.ResourceUsage = belljar.PhaseQueued, nil, nil, nil
	insert(t, s, open)
	ok(t, s.Runs().Finish(t.Context(), r))
}

func insert(t *testing.T, s store.Store, r store.Run) {
	t.Helper()
	if prior, err := s.Runs().Insert(t.Context(), r, nil); err != nil || prior != nil {
		t.Fatalf("insert: prior %v, error %v", prior, err)
	}
}

func getRun(t *testing.T, s store.Store, id string) store.Run {
	t.Helper()
	r, err := s.Runs().Get(t.Context(), id)
	ok(t, err)
	return r
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// same compares a stored value with the one returned: times in UTC to the microsecond. An empty list or map equals a
// nil one.
func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	times := cmp.Comparer(func(a, b time.Time) bool {
		return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
	})
	if diff := cmp.Diff(want, got, times, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (- want, + got):\n%s", what, diff)
	}
}

func idsOf(runs []store.Run) []string {
	ids := []string{}
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids
}
