package service

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

const (
	signInLife = 12 * time.Hour
	codeLife   = 5 * time.Minute
	// mostSignIns bounds the sign-ins and codes of one user that have neither ended nor expired.
	mostSignIns = 256
)

// Prefixes of the tokens on record. A code is shown as a whole, so its row stores a fixed word instead of a prefix.
const (
	signInPrefix = "u1."
	codePrefix   = "code"
)

// keyParent begins the parent of tokens made with an API key; the key's hash follows. The caller must check all other parents.
const keyParent = "key:"

// SignIns manages the sign-ins to the web page: tokens that expire, and one-time codes for them. Each has the user and the role of
// its parent, the credential that it was made with, and ends with it.
type SignIns struct{ s *Service }

// SignIns manages the sign-ins of all users.
func (s *Service) SignIns() SignIns { return SignIns{s} }

// KeyParent returns the parent name of tokens made with an API key. [Options].Revoked receives this name for a key or a sign-in.
func (SignIns) KeyParent(key string) string { return keyParent + hashKey(key) }

// AddCode stores a one-time code of a caller.
func (n SignIns) AddCode(ctx context.Context, caller belljar.Caller, code, parent string) (expires time.Time, err error) {
	until := n.s.now().Add(codeLife)
	return n.add(ctx, caller, store.Token{Token: belljar.Token{Name: "web page", Prefix: codePrefix}, Parent: parent}, code, until, event.SignInCode)
}

// Add stores a sign-in of a caller, which expires at the latest at end, unless that is zero.
func (n SignIns) Add(ctx context.Context, caller belljar.Caller, token, parent string, end time.Time) (expires time.Time, err error) {
	until := n.s.now().Add(signInLife)
	if !end.IsZero() && end.Before(until) {
		until = end.UTC()
	}
	return n.add(ctx, caller, store.Token{Token: belljar.Token{Name: "web page", Prefix: signInPrefix}, Parent: parent}, token, until, event.SignedIn)
}

func (n SignIns) add(ctx context.Context, caller belljar.Caller, t store.Token, secret string, until time.Time, name string) (time.Time, error) {
	now := n.s.now()
	end, err := n.end(ctx, t.Parent)
	if err != nil {
		return time.Time{}, err
	}
	if end != nil && end.Before(until) {
		until = *end
	}
	t.ID, t.UserID, t.Role, t.CreatedAt, t.ExpiresAt, t.Hash = belljar.NewID(), caller.ID, caller.Role, now, &until, hashKey(secret)
	stored, err := n.s.opts.Store.Tokens().SignIn(ctx, t, mostSignIns)
	switch {
	case err != nil:
		return time.Time{}, fault.Record("store the sign-in", err)
	case !stored:
		return time.Time{}, &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: "this user is signed in too often", Hint: "sign out elsewhere; sign-ins end after 12 hours",
			Details: map[string]any{"rule": "sign_ins", "maximum": mostSignIns},
		}
	}
	n.s.emit(event.Event{Name: name, Caller: caller, Detail: map[string]string{"token_id": t.ID}})
	return until, nil
}

// Spend returns the user of a one-time code, and the code's parent. It invalidates the code.
func (n SignIns) Spend(ctx context.Context, code string) (caller belljar.Caller, parent string, err error) {
	t, err := n.find(ctx, code, codePrefix)
	if err != nil {
		return belljar.Caller{}, "", err
	}
	switch err := n.s.opts.Store.Tokens().Spend(ctx, t.Hash, n.s.now()); {
	case errors.Is(err, store.ErrNotFound): // a concurrent request used it first
		return belljar.Caller{}, "", invalidKey()
	case err != nil:
		return belljar.Caller{}, "", fault.Record("spend the code", err)
	}
	forgetExpiry(n.s, t)
	return belljar.Caller{ID: t.UserID, Role: t.Role}, t.Parent, nil
}

// Find returns the user of a sign-in, and its parent.
func (n SignIns) Find(ctx context.Context, token string) (caller belljar.Caller, parent string, err error) {
	t, err := n.find(ctx, token, signInPrefix)
	if err != nil {
		return belljar.Caller{}, "", err
	}
	return belljar.Caller{ID: t.UserID, Role: t.Role}, t.Parent, nil
}

// End ends a sign-in of a caller.
func (n SignIns) End(ctx context.Context, caller belljar.Caller, token string) error {
	t, err := n.find(ctx, token, signInPrefix)
	if err != nil {
		return err
	}
	if err := n.s.opts.Store.Tokens().Revoke(ctx, t.ID, n.s.now()); err != nil {
		return fault.Record("end the sign-in", err)
	}
	n.s.emit(event.Event{Name: event.SignedOut, Caller: caller, Detail: map[string]string{"token_id": t.ID}})
	endUses(n.s, t)
	return nil
}

// find returns a sign-in or code if it and the API key that it was made with are valid.
func (n SignIns) find(ctx context.Context, secret, prefix string) (store.Token, error) {
	t, err := n.s.validToken(ctx, hashKey(secret))
	switch {
	case err != nil:
		return t, err
	case t.Prefix != prefix || t.Parent == "":
		return store.Token{}, invalidKey()
	}
	_, err = n.end(ctx, t.Parent)
	return t, err
}

// end returns the expiry of a parent that is an API key, nil for none. It fails if the key is not valid.
func (n SignIns) end(ctx context.Context, parent string) (*time.Time, error) {
	hash, ok := strings.CutPrefix(parent, keyParent)
	if !ok {
		return nil, nil
	}
	t, err := n.s.validToken(ctx, hash)
	if err == nil && t.Parent != "" {
		err = invalidKey()
	}
	return t.ExpiresAt, err
}
