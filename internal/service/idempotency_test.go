//go:build linux

package service_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

func keyed(key, script string) belljar.RunRequest {
	req := shell(script)
	req.IdempotencyKey = key
	return req
}

func TestReplay(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock = clock })
	first := b.start(keyed("k", "echo once"))
	if first.Details == nil || *first.Details != (belljar.Replay{Key: "k", Status: "created"}) {
		t.Errorf("details %+v", first.Details)
	}
	b.follow(first.ID).want(t, belljar.PhaseCompleted, 0, "")
	again := b.start(keyed("k", "echo once"))
	if again.Details == nil || again.Details.Status != "replayed" {
		t.Errorf("details %+v", again.Details)
	}
	again.Details, first.Details = nil, nil
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the answers differ:\n%s", diff)
	}

	_, err := b.Start(t.Context(), keyed("k", "echo twice"))
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeIdempotency || e.Details["prior_id"] != first.ID || e.Details["key"] != "k" {
		t.Fatalf("another request: %+v", err)
	}
	if at, err := time.Parse(time.RFC3339Nano, e.Details["prior_created_at"].(string)); err != nil || !at.Equal(clock.Now()) {
		t.Errorf("prior_created_at %v, %v", e.Details["prior_created_at"], err)
	}

	other, err := b.as("somebody").Start(t.Context(), keyed("k", "echo twice"))
	if err != nil || other.ID == first.ID {
		t.Errorf("the same key of another user: %s, %v", other.ID, err)
	}
	b.follow(other.ID)

	clock.pass(601 * time.Second)
	late := b.start(keyed("k", "echo twice"))
	if late.ID == first.ID || late.Details.Status != "created" {
		t.Errorf("after the key's time: %+v", late)
	}
	b.follow(late.ID)
}

// Operators see only the keys in force.
func TestKeysInForce(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock = clock })
	b.follow(b.start(keyed("old", "true")).ID)
	clock.pass(601 * time.Second)
	b.follow(b.start(keyed("new", "true")).ID)
	list, err := b.service.As(service.Local()).Admin().Idempotency(t.Context(), belljar.KeyQuery{})
	if err != nil || len(list) != 1 || list[0].Key != "new" {
		t.Errorf("%+v, %v", list, err)
	}
}

// Concurrent requests make one run, and all get the same response.
func TestReplayRace(t *testing.T) {
	b := newBench(t)
	var mu sync.Mutex
	ids := map[string]int{}
	statuses := map[string]int{}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			run, err := b.Start(t.Context(), keyed("k", "true"))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[run.ID]++
			statuses[run.Details.Status]++
		})
	}
	wg.Wait()
	if len(ids) != 1 || statuses["created"] != 1 || statuses["replayed"] != 19 {
		t.Errorf("runs %v, answers %v", ids, statuses)
	}
	for id := range ids {
		b.follow(id)
	}
	page, err := b.List(t.Context(), belljar.RunQuery{})
	if err != nil || page.Total != 1 {
		t.Errorf("%d runs on record, %v", page.Total, err)
	}
}

// A refused request leaves no key.
func TestRefusedRequestHasNoKey(t *testing.T) {
	b := newBench(t)
	bad := keyed("k", "true")
	bad.Resources.MemoryMB = 1 << 30
	if _, err := b.Start(t.Context(), bad); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Fatal(err)
	}
	b.run(keyed("k", "true")).want(t, belljar.PhaseCompleted, 0, "")
}

func TestBadKeys(t *testing.T) {
	b := newBench(t)
	for _, key := range []string{strings.Repeat("é", 129), "a\nb", "\x00", "a\x7f", "\xff", "\u0085"} {
		if _, err := b.Start(t.Context(), keyed(key, "true")); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%q: %v", key, err)
		}
	}
	b.run(keyed(strings.Repeat("é", 128), "true")).want(t, belljar.PhaseCompleted, 0, "")
}

// held is a store that calls a function before it inserts a session.
type held struct {
	store.Store
	insert func()
}

func (s *held) Sessions() store.Sessions { return heldSessions{s.Store.Sessions(), s} }

type heldSessions struct {
	store.Sessions
	s *held
}

func (h heldSessions) Insert(ctx context.Context, row store.Session, key *store.Key) (*store.Key, error) {
	h.s.insert()
	return h.Sessions.Insert(ctx, row, key)
}

// A repeated request is not refused for what the first one holds, although that is not on record yet: it waits.
func TestRepeatedBeforeItIsOnRecord(t *testing.T) {
	runs, sessions := &records{}, &held{}
	b := newBench(t, one, recorded(runs), func(o *service.Options) {
		sessions.Store, o.Store = o.Store, sessions
		o.QueueLength, o.MaxSessions = -1, 1
	})
	run, session := keyed("run", "exec sleep 1000"), spec()
	session.IdempotencyKey = "session"
	early := func(what string, repeat func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if err := repeat(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	runs.insert = func() error {
		early("a run", func(ctx context.Context) error {
			_, err := b.Start(ctx, run)
			return err
		})
		return nil
	}
	sessions.insert = func() {
		early("a session", func(ctx context.Context) error {
			_, err := b.mine().Create(ctx, session)
			return err
		})
	}
	first := b.start(run)
	if again := b.start(run); again.ID != first.ID {
		t.Errorf("run %s, then %s", first.ID, again.ID)
	}
	if err := b.Cancel(b.context(), first.ID); err != nil {
		t.Error(err)
	}
	made, err := b.mine().Create(b.context(), session)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := b.mine().Create(b.context(), session); err != nil || again.ID != made.ID {
		t.Errorf("session %s, then %s, %v", made.ID, again.ID, err)
	}
}
