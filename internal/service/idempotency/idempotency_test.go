package idempotency

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/memory"
)

func TestClaim(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := memory.New()
	k := &Keys{Store: db.Keys(), TTL: time.Minute, Now: func() time.Time { return now }}
	ann, ben := belljar.Caller{ID: "ann"}, belljar.Caller{ID: "ben"}
	one, two := belljar.SessionSpec{BaseImage: "host"}, belljar.SessionSpec{BaseImage: "other"}
	claim := func(who belljar.Caller, text string, spec belljar.SessionSpec) (key, prior *store.Key, code belljar.Code) {
		t.Helper()
		key, prior, err := k.Claim(t.Context(), Sessions, who, text, spec)
		if err != nil {
			code = belljar.CodeOf(err)
		}
		return key, prior, code
	}
	if key, prior, code := claim(ann, "", one); key != nil || prior != nil || code != "" {
		t.Errorf("a request without a key: %v, %v, %v", key, prior, code)
	}
	for _, bad := range []string{"a\nb", "\xff", strings.Repeat("é", 129)} {
		if _, _, code := claim(ann, bad, one); code != belljar.CodeInvalidRequest {
			t.Errorf("%.10q: %v", bad, code)
		}
	}
	key, prior, code := claim(ann, "k", one)
	if key == nil || prior != nil || code != "" {
		t.Fatalf("%v, %v, %v", key, prior, code)
	}
	id := belljar.NewID()
	row := store.Session{Session: belljar.Session{ID: id, UserID: "ann", State: belljar.SessionStarting, CreatedAt: now, ExpiresAt: now}}
	response, err := json.Marshal(row.Session)
	if err != nil {
		t.Fatal(err)
	}
	key.ObjectID, key.Response = id, response
	if _, err := db.Sessions().Insert(context.Background(), row, key); err != nil {
		t.Fatal(err)
	}

	_, prior, code = claim(ann, "k", one)
	if prior == nil || prior.ObjectID != id || code != "" {
		t.Fatalf("the same request: %v, %v", prior, code)
	}
	var answer belljar.Session
	if note, err := Replay(prior, &answer); err != nil || answer.ID != id || note.Status != Replayed {
		t.Errorf("%+v, %+v, %v", answer, note, err)
	}
	if _, _, code = claim(ann, "k", two); code != belljar.CodeIdempotency {
		t.Errorf("another request: %v", code)
	}
	if _, prior, code = claim(ben, "k", two); prior != nil || code != "" {
		t.Errorf("another user: %v, %v", prior, code)
	}

	if err := k.ReleaseOf(t.Context(), "ann", belljar.NewID()); err != nil {
		t.Error(err)
	}
	if _, prior, _ = claim(ann, "k", one); prior == nil {
		t.Fatal("the key of another session was released")
	}
	if err := k.ReleaseOf(t.Context(), "ann", id); err != nil {
		t.Error(err)
	}
	if _, prior, code = claim(ann, "k", two); prior != nil || code != "" {
		t.Errorf("a released key: %v, %v", prior, code)
	}
}

// A key expires after its TTL.
func TestKeysExpire(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := memory.New()
	k := &Keys{Store: db.Keys(), TTL: time.Minute, Now: func() time.Time { return now }}
	ann := belljar.Caller{ID: "ann"}
	key, _, err := k.Claim(t.Context(), Runs, ann, "k", belljar.RunSpec{})
	if err != nil {
		t.Fatal(err)
	}
	key.ObjectID = belljar.NewID()
	row := store.Run{Run: belljar.Run{ID: key.ObjectID, UserID: "ann", Phase: belljar.PhaseQueued, CreatedAt: now}}
	if _, err := db.Runs().Insert(context.Background(), row, key); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		found bool
	}{{59 * time.Second, true}, {2 * time.Second, false}} {
		now = now.Add(step.after)
		if _, prior, err := k.Claim(t.Context(), Runs, ann, "k", belljar.RunSpec{}); err != nil || (prior != nil) != step.found {
			t.Errorf("after %v: %v, %v", step.after, prior, err)
		}
	}
	if err := k.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := db.Keys().List(t.Context(), belljar.KeyQuery{Limit: 10}); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}
