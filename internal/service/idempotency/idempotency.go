// Package idempotency handles repeated requests with an Idempotency-Key (docs/compatibility.md#idempotency).
package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// The endpoints that accept a key.
const (
	Runs     = "runs"
	Sessions = "sessions"
)

// The results of a request with a key.
const (
	Created  = "created"
	Replayed = "replayed"
)

// maxKey is the maximum length of a key, in characters.
const maxKey = 128

// Keys are the keys in force.
type Keys struct {
	Store store.Keys
	TTL   time.Duration // how long a key is remembered
	Now   func() time.Time
	// Retry repeats a failed write in the background. about names the record in the log.
	Retry func(write func() error, about ...any)

	turns sync.Map // the keys that requests of this process have a turn with, each with a channel that is closed at its end
}

// Turn waits until the caller's other request of this process with a key, if there is one, has inserted the key or failed. Until then that
// request may hold what this one would be refused for. Call done after the same.
func (k *Keys) Turn(ctx context.Context, endpoint string, caller belljar.Caller, text string) (done func(), err error) {
	if text == "" {
		return func() {}, nil
	}
	mine, id := make(chan struct{}), [...]string{endpoint, caller.ID, text}
	for {
		other, taken := k.turns.LoadOrStore(id, mine)
		if !taken {
			return sync.OnceFunc(func() {
				k.turns.Delete(id)
				close(mine)
			}), nil
		}
		select {
		case <-other.(chan struct{}):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Claim reads a request's key: nil, nil, nil if it has none. If the caller has made the same request within the key's time, prior
// is that request. A different request with the same key is refused. Otherwise the caller of Claim must insert key together with
// the run or session that the request makes: the store then decides between concurrent requests.
//
// Two requests are the same if their specs are. Their streams are not compared.
func (k *Keys) Claim(ctx context.Context, endpoint string, caller belljar.Caller, text string, spec any) (key, prior *store.Key, err error) {
	if text == "" {
		return nil, nil, nil
	}
	if err := check(text); err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(spec) // deterministic: fixed order of fields, sorted map keys, no white space
	if err != nil {
		return nil, nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the request cannot be written as JSON", Err: err}
	}
	sum := sha256.Sum256(raw)
	now := k.Now()
	key = &store.Key{
		Endpoint: endpoint, UserKey: caller.ID, Key: text, Fingerprint: hex.EncodeToString(sum[:]),
		CreatedAt: now.UTC(), NotBefore: now.Add(-k.TTL).UTC(),
	}
	found, err := k.Store.Get(ctx, endpoint, caller.ID, text)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && found.CreatedAt.Before(key.NotBefore):
		return key, nil, nil
	case err != nil:
		return nil, nil, fault.Record("look up the idempotency key", err)
	}
	return key, &found, Same(key, &found)
}

func check(text string) error {
	what := ""
	switch {
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		what = "an idempotency key must not hold control characters"
	case utf8.RuneCountInString(text) > maxKey:
		what = "an idempotency key has at most 128 characters"
	default:
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: what, Details: map[string]any{"field": "Idempotency-Key", "maximum": maxKey},
	}
}

// Same refuses a key that was already used with a different request.
func Same(key, prior *store.Key) error {
	if key.Fingerprint == prior.Fingerprint {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodeIdempotency, Message: "Idempotency-Key replay with different body",
		Details: map[string]any{
			"prior_id": prior.ObjectID, "key": prior.Key, "prior_created_at": prior.CreatedAt.UTC().Format(time.RFC3339Nano),
		},
	}
}

// Replay unmarshals the first response to a key into answer, and returns the note for it.
func Replay(prior *store.Key, answer any) (*belljar.Replay, error) {
	if err := json.Unmarshal(prior.Response, answer); err != nil {
		return nil, &belljar.Error{Code: belljar.CodeInternal, Message: "the first answer to this key cannot be read", Err: err}
	}
	return &belljar.Replay{Key: prior.Key, Status: Replayed}, nil
}

// Released reports whether the key of prior is free again, because its request made nothing.
func (k *Keys) Released(ctx context.Context, prior *store.Key) bool {
	now, err := k.Store.Get(ctx, prior.Endpoint, prior.UserKey, prior.Key)
	return errors.Is(err, store.ErrNotFound) || err == nil && now.ObjectID != prior.ObjectID
}

// Release removes the key of a session or run that was not made, so that the same request makes one; nil has no effect.
func (k *Keys) Release(key *store.Key, object string) {
	if key == nil {
		return
	}
	remove := func() error {
		return k.Store.Delete(context.Background(), key.Endpoint, key.UserKey, key.Key, object)
	}
	if err := remove(); err != nil {
		k.Retry(remove, "endpoint", key.Endpoint, "object_id", object, "err", err)
	}
}

// ReleaseOf removes the key with which a user requested a session, if there was one.
func (k *Keys) ReleaseOf(ctx context.Context, user, object string) error {
	q := belljar.KeyQuery{Endpoint: Sessions, UserID: user, Limit: belljar.MaxPage}
	for ; ; q.Offset += q.Limit {
		list, err := k.Store.List(ctx, q)
		if err != nil {
			return fmt.Errorf("list idempotency keys: %w", err)
		}
		for _, e := range list {
			if e.ObjectID == object {
				return k.Store.Delete(ctx, e.Endpoint, e.UserKey, e.Key, object)
			}
		}
		if len(list) < q.Limit {
			return nil
		}
	}
}

// Sweep removes expired keys.
func (k *Keys) Sweep(ctx context.Context) error {
	if _, err := k.Store.DeleteBefore(ctx, k.Now().Add(-k.TTL)); err != nil {
		return fmt.Errorf("sweep idempotency keys: %w", err)
	}
	return nil
}
