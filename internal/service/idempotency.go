package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// The endpoints that take an Idempotency-Key.
const (
	endpointRuns     = "runs"
	endpointSessions = "sessions"
)

// What became of a request with an Idempotency-Key (docs/compatibility.md#idempotency).
const (
	keyCreated  = "created"
	keyReplayed = "replayed"
)

// maxKey is how long an Idempotency-Key may be, in characters.
const maxKey = 128

// claim reads a request's Idempotency-Key: nil, nil, nil if it has none. If the same request has been made within the
// key's time, prior is what it was answered; a different one with that key is refused. Otherwise key goes into the
// store beside what the request makes, which decides between requests that come at once.
//
// The request is what its spec says: streams beside it are not looked at.
func (s *Service) claim(ctx context.Context, endpoint string, caller belljar.Caller, text string, spec any) (key, prior *store.Key, err error) {
	if text == "" {
		return nil, nil, nil
	}
	if err := checkKey(text); err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(spec) // fields in one order, names of maps sorted, no white space
	if err != nil {
		return nil, nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the request is not JSON", Err: err}
	}
	sum := sha256.Sum256(raw)
	now := s.clock.Now()
	key = &store.Key{
		Endpoint: endpoint, UserKey: caller.ID, Key: text, Fingerprint: hex.EncodeToString(sum[:]),
		CreatedAt: now.UTC(), NotBefore: now.Add(-s.opts.IdempotencyTTL).UTC(),
	}
	found, err := s.opts.Store.Keys().Get(ctx, endpoint, caller.ID, text)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && found.CreatedAt.Before(key.NotBefore):
		return key, nil, nil
	case err != nil:
		return nil, nil, fault.Record("look the idempotency key up", err)
	}
	return key, &found, sameRequest(key, &found)
}

func checkKey(text string) error {
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

// sameRequest refuses a key that was sent before with another request.
func sameRequest(key, prior *store.Key) error {
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

// replay reads what a request was answered the first time into answer, and returns the note that goes with it.
func replay(prior *store.Key, answer any) (*belljar.Replay, error) {
	if err := json.Unmarshal(prior.Response, answer); err != nil {
		return nil, &belljar.Error{Code: belljar.CodeInternal, Message: "the first answer to this key cannot be read", Err: err}
	}
	return &belljar.Replay{Key: prior.Key, Status: keyReplayed}, nil
}

// replayRun is the answer to a repeated request for a run.
func replayRun(prior *store.Key) (run belljar.Run, err error) {
	note, err := replay(prior, &run)
	run.Details = note
	return run, err
}
