package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/user"
)

// The form of API keys: this prefix, and 32 random bytes in base 62.
const (
	keyPrefix = "blj_"
	keyDigits = 43
	keyShown  = len(keyPrefix) + 6 // length of the part shown in lists
)

// maxName bounds the names of users and tokens, in bytes.
const maxName = 256

// newKey returns a new API key.
func newKey() string {
	var raw [32]byte
	rand.Read(raw[:])
	text := new(big.Int).SetBytes(raw[:]).Text(62)
	return keyPrefix + strings.Repeat("0", keyDigits-len(text)) + text
}

func hashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Authenticate returns the user of an API key; [belljar.CodeUnauthorized] for a key that is unknown, expired or revoked. The error
// does not reveal which.
func (s *Service) Authenticate(ctx context.Context, key string) (belljar.Caller, error) {
	if !strings.HasPrefix(key, keyPrefix) || len(key) != len(keyPrefix)+keyDigits {
		return belljar.Caller{}, invalidKey()
	}
	t, err := s.validToken(ctx, hashKey(key))
	if err != nil {
		return belljar.Caller{}, err
	}
	return belljar.Caller{ID: t.UserID, Role: t.Role}, nil
}

// invalidKey is the error for every invalid key, sign-in and code.
func invalidKey() error {
	return &belljar.Error{Code: belljar.CodeUnauthorized, Message: "the API key is not valid"}
}

// validToken returns the token with a hash, unless it has expired or was revoked, and records its use.
func (s *Service) validToken(ctx context.Context, hash string) (store.Token, error) {
	t, err := s.opts.Store.Tokens().ByHash(ctx, hash)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Token{}, invalidKey()
	case err != nil:
		return store.Token{}, fault.Record("look up the API key", err)
	}
	now := s.clock.Now().UTC()
	same := subtle.ConstantTimeCompare([]byte(t.Hash), []byte(hash)) == 1
	if !same || t.RevokedAt != nil || t.ExpiresAt != nil && !now.Before(*t.ExpiresAt) {
		return store.Token{}, invalidKey()
	}
	if minute := now.Truncate(time.Minute); t.LastUsedAt == nil || t.LastUsedAt.Before(minute) {
		if err := s.opts.Store.Tokens().Used(ctx, t.ID, minute); err != nil {
			s.log.Warn("use of an API key cannot be recorded", "token_id", t.ID, "err", err)
		}
	}
	if endAtExpiry(s, t) { // it may have ended before it had its timer
		last, err := s.opts.Store.Tokens().ByHash(ctx, hash)
		if err != nil || last.RevokedAt != nil || !s.clock.Now().Before(*t.ExpiresAt) {
			forgetExpiry(s, t)
			return store.Token{}, invalidKey()
		}
	}
	return t, nil
}

// CreateToken makes a key. Only this response has it.
func (v admin) CreateToken(ctx context.Context, spec belljar.TokenSpec) (belljar.Token, error) {
	if err := v.allowed("make API keys"); err != nil {
		return belljar.Token{}, err
	}
	spec.Role = cmp.Or(spec.Role, belljar.RoleUser)
	if err := checkToken(spec); err != nil {
		return belljar.Token{}, err
	}
	key := newKey()
	t := belljar.Token{
		ID: belljar.NewID(), UserID: spec.UserID, Role: spec.Role, Name: spec.Name, Prefix: key[:keyShown],
		CreatedAt: v.service.now(),
	}
	if spec.TTLSec > 0 {
		t.ExpiresAt = new(t.CreatedAt.Add(seconds(spec.TTLSec)))
	}
	if err := v.service.opts.Store.Tokens().Insert(ctx, store.Token{Token: t, Hash: hashKey(key)}); err != nil {
		return belljar.Token{}, fault.Record("store the API key", err)
	}
	v.recordToken(event.TokenCreated, t.ID, map[string]string{"user_id": t.UserID, "role": string(t.Role), "name": t.Name})
	t.Secret = key
	return t, nil
}

// Tokens lists keys and sign-ins, without their secrets.
func (v admin) Tokens(ctx context.Context) ([]belljar.Token, error) {
	if err := v.allowed("see API keys"); err != nil {
		return nil, err
	}
	rows, err := v.service.opts.Store.Tokens().List(ctx)
	if err != nil {
		return nil, fault.Record("list API keys", err)
	}
	list := make([]belljar.Token, 0, len(rows))
	for _, t := range rows {
		if t.Prefix != codePrefix {
			list = append(list, t.Token)
		}
	}
	return list, nil
}

// RevokeToken revokes a key.
func (v admin) RevokeToken(ctx context.Context, id string) error {
	if err := v.allowed("revoke API keys"); err != nil {
		return err
	}
	rows, err := v.service.opts.Store.Tokens().List(ctx)
	if err != nil {
		return fault.Record("list API keys", err)
	}
	err = v.service.opts.Store.Tokens().Revoke(ctx, id, v.service.clock.Now().UTC())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &belljar.Error{
			Code: belljar.CodeNotFound, Message: fmt.Sprintf("API key %q does not exist", id), Details: map[string]any{"id": id},
			Hint: "name it by its id, which the list shows",
		}
	case err != nil:
		return fault.Record("revoke the API key", err)
	}
	v.recordToken(event.TokenRevoked, id, nil)
	for _, t := range rows {
		if t.ID == id {
			endUses(v.service, t)
		}
	}
	return nil
}

// endUses ends all uses of a revoked token.
func endUses(s *Service, t store.Token) {
	forgetExpiry(s, t)
	if s.opts.Revoked != nil {
		s.opts.Revoked(keyParent + t.Hash)
	}
}

// endAtExpiry ends the uses of a valid token when it expires. It reports whether it has set the timer.
func endAtExpiry(s *Service, t store.Token) bool {
	if t.ExpiresAt == nil {
		return false
	}
	if _, set := s.expiring.Load(t.ID); set {
		return false
	}
	stop := s.clock.AfterFunc(t.ExpiresAt.Sub(s.clock.Now()), func() { endUses(s, t) })
	_, set := s.expiring.LoadOrStore(t.ID, stop)
	if set { // by a concurrent use
		stop()
	}
	return !set
}

// forgetExpiry stops the timer of a token that is no longer valid.
func forgetExpiry(s *Service, t store.Token) {
	if stop, set := s.expiring.LoadAndDelete(t.ID); set {
		stop.(func() bool)()
	}
}

// recordToken records an event of a key.
func (v admin) recordToken(name, id string, detail map[string]string) {
	if detail == nil {
		detail = map[string]string{}
	}
	detail["token_id"] = id
	v.service.emit(event.Event{Name: name, Caller: v.caller, Detail: detail})
}

func checkToken(spec belljar.TokenSpec) error {
	if err := checkUser(spec.UserID); err != nil {
		return err
	}
	switch {
	case user.Reserved(belljar.Caller{ID: spec.UserID, Role: spec.Role}):
		return fault.Refuse("user_id", spec.UserID, "this user_id is the server's: only operators (role admin) may have it")
	case spec.Role != belljar.RoleUser && spec.Role != belljar.RoleAdmin:
		return fault.Refuse("role", string(spec.Role), "role must be user or admin")
	case len(spec.Name) > maxName || !utf8.ValidString(spec.Name) || strings.ContainsFunc(spec.Name, unicode.IsControl):
		return fault.Refuse("name", spec.Name, "name must be at most 256 bytes of text")
	case spec.TTLSec < 0 || math.IsNaN(spec.TTLSec) || math.IsInf(spec.TTLSec, 0):
		return fault.Refuse("ttl_sec", strconv.FormatFloat(spec.TTLSec, 'g', -1, 64), "ttl_sec must not be negative; 0 means no end")
	}
	return nil
}

// checkUser checks the name of a user.
func checkUser(id string) error {
	if id == "" || len(id) > maxName || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return fault.Refuse("user_id", id, "user_id must be 1 to 256 bytes of text")
	}
	return nil
}
