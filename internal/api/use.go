package api

import (
	"context"
	"sync"

	"github.com/belljar/belljar"
)

// Uses are the requests and tickets that credentials are in use for. They end when a credential is revoked or expires. The zero value has none.
type Uses struct {
	mu      sync.Mutex
	revoked uint64 // how often End was called
	by      map[string]map[*Use]struct{}
}

// Use is a request or a ticket with a revocable credential. A nil Use has a credential that cannot be revoked.
type Use struct {
	all   *Uses
	names []string // of the credential, and of those that it was made with
	end   func()
	over  bool
}

// Revoked returns how often credentials were revoked. Call it before verifying credentials, and pass the result to [Uses.Note].
func (u *Uses) Revoked() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.revoked
}

// Note records that the request of ctx uses the credentials with these names. It reports false if a credential was revoked since revoked
// was read: the caller must then verify them again.
func (u *Uses) Note(ctx context.Context, revoked uint64, names ...string) bool {
	rec := recordOf(ctx)
	if rec == nil { // no request
		return true
	}
	rec.use.Release()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.revoked != revoked {
		return false
	}
	rec.use = u.add(names, rec.end)
	return true
}

// add adds a use. The caller holds the lock.
func (u *Uses) add(names []string, end func()) *Use {
	if u.by == nil {
		u.by = map[string]map[*Use]struct{}{}
	}
	one := &Use{all: u, names: names, end: end}
	for _, name := range names {
		if u.by[name] == nil {
			u.by[name] = map[*Use]struct{}{}
		}
		u.by[name][one] = struct{}{}
	}
	return one
}

// End ends all uses of the named credential, and of credentials made with it. The caller must invalidate the credential first.
func (u *Uses) End(name string) {
	u.mu.Lock()
	u.revoked++
	var ends []func()
	for one := range u.by[name] {
		one.over = true
		ends = append(ends, one.end)
	}
	delete(u.by, name)
	u.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// Another adds a use of the credentials of ctx's request. Their revocation calls end. It reports false if they are already revoked.
func Another(ctx context.Context, end func()) (*Use, bool) {
	rec := recordOf(ctx)
	if rec == nil || rec.use == nil {
		return nil, true
	}
	u := rec.use.all
	u.mu.Lock()
	defer u.mu.Unlock()
	if rec.use.over {
		return nil, false
	}
	return u.add(rec.use.names, end), true
}

// Pass hands the use over to the request of ctx, which releases it when it ends. It reports false if the credentials were revoked.
func (one *Use) Pass(ctx context.Context) bool {
	rec := recordOf(ctx)
	if one == nil || rec == nil {
		return true
	}
	one.all.mu.Lock()
	defer one.all.mu.Unlock()
	rec.use, one.end = one, rec.end
	return !one.over
}

// Release removes the use.
func (one *Use) Release() {
	if one == nil {
		return
	}
	u := one.all
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range one.names {
		if delete(u.by[name], one); len(u.by[name]) == 0 {
			delete(u.by, name)
		}
	}
}

// Revoked returns the error of a request that has ended because its credentials were revoked; nil for others.
func Revoked(ctx context.Context) error {
	if err := context.Cause(ctx); err == error(errRevoked) {
		return err
	}
	return nil
}

// errRevoked is the cause with which the context of a request ends after its credentials were revoked.
var errRevoked = &belljar.Error{Code: belljar.CodeUnauthorized, Message: "credentials are no longer valid", Hint: "sign in again, or use another key"}
