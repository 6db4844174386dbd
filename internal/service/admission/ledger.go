package admission

import (
	"context"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// ledger counts the bytes of one kind that users store, artifacts or logs, so that concurrent runs do not use the same space twice.
// The zero value is ready.
type ledger struct {
	mu       sync.Mutex
	accounts map[string]*account
}

// account is one user's account. It is read from the record when the user has no open claims, and kept up to date from then on.
type account struct {
	uses int // of this account; guarded by the ledger's mu

	mu     sync.Mutex
	open   int   // number of claims
	used   int64 // on record, or reserved by claims
	most   int64
	flight int64 // the part of used that is not on record yet
	until  time.Time
}

// Allowance is one run's claim on its owner's account. A nil Allowance is unlimited and counts nothing.
type Allowance struct {
	ledger  *ledger
	account *account
	taken   int64
}

// allow opens a claim on the rest of a user's quota, of most MiB in all; 0 is no limit. of selects the kind in the record.
func (s *Accounts) allow(ctx context.Context, l *ledger, user string, most int, of func(belljar.UserUsage) int64) (*Allowance, error) {
	a := l.account(user)
	a.mu.Lock()
	now := s.Now()
	if a.open == 0 && !now.Before(a.until) {
		// This user has no open claims, so the record is complete.
		used, err := s.Users.Usage(ctx, user, now)
		if err != nil {
			a.mu.Unlock()
			l.leave(a)
			return nil, fault.Record("read the usage of "+user, err)
		}
		a.used, a.until = of(used), now.Add(quotaFor)
	}
	defer a.mu.Unlock()
	if a.most = math.MaxInt64; most > 0 {
		a.most = int64(most) << 20
	}
	a.open++
	return &Allowance{ledger: l, account: a}, nil
}

// account returns a user's account. Release it with leave.
func (l *ledger) account(user string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[user]
	if a == nil {
		if l.accounts == nil {
			l.accounts = map[string]*account{}
		}
		for other, idle := range l.accounts {
			if len(l.accounts) >= maxCached && idle.uses == 0 {
				delete(l.accounts, other)
			}
		}
		a = &account{}
		l.accounts[user] = a
	}
	a.uses++
	return a
}

func (l *ledger) leave(a *account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.uses--
}

// adjust changes the count of a user's bytes on record that changed without a claim.
func (l *ledger) adjust(user string, by int64) {
	a := l.account(user)
	defer l.leave(a)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = max(0, a.used+by)
}

// flying returns the bytes that are not on record yet: of a user, and of all users.
func (l *ledger) flying(user string) (own, all int64) {
	l.mu.Lock()
	active := maps.Clone(l.accounts)
	maps.DeleteFunc(active, func(_ string, a *account) bool { return a.uses == 0 })
	l.mu.Unlock()
	for name, a := range active {
		a.mu.Lock()
		all += a.flight
		if name == user {
			own = a.flight
		}
		a.mu.Unlock()
	}
	return own, all
}

// Reserve reserves n bytes, or reports that there is no room.
func (w *Allowance) Reserve(n int64) bool {
	if w == nil {
		return true
	}
	w.account.mu.Lock()
	defer w.account.mu.Unlock()
	if n > w.account.most-w.account.used {
		return false
	}
	w.add(n)
	return true
}

// ReserveUpTo reserves up to n bytes, and returns how many.
func (w *Allowance) ReserveUpTo(n int64) int64 {
	if w == nil {
		return n
	}
	w.account.mu.Lock()
	defer w.account.mu.Unlock()
	n = max(0, min(n, w.account.most-w.account.used))
	w.add(n)
	return n
}

// Release releases n bytes.
func (w *Allowance) Release(n int64) {
	w.account.mu.Lock()
	defer w.account.mu.Unlock()
	w.add(-n)
}

// SetTo sets the claim to n bytes even without room for them: they already exist.
func (w *Allowance) SetTo(n int64) {
	if w == nil {
		return
	}
	w.account.mu.Lock()
	defer w.account.mu.Unlock()
	w.add(n - w.taken)
}

// add changes the size of the claim. The caller holds the account's mu.
func (w *Allowance) add(n int64) {
	w.taken += n
	w.account.used += n
	w.account.flight += n
}

// Left returns the used bytes and the maximum of the owner's quota.
func (w *Allowance) Left() (used, most int64) {
	w.account.mu.Lock()
	defer w.account.mu.Unlock()
	return w.account.used, w.account.most
}

// Close ends the claim, after its bytes are on record.
func (w *Allowance) Close() {
	if w == nil {
		return
	}
	w.account.mu.Lock()
	w.account.flight -= w.taken
	w.account.open--
	w.account.mu.Unlock()
	w.ledger.leave(w.account)
}

// now returns a user's current bytes: those on record, plus those that open claims have reserved.
func (l *ledger) now(user string, recorded int64) int64 {
	a := l.account(user)
	defer l.leave(a)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open > 0 {
		return a.used
	}
	return recorded
}

// LogAdded reports that a user's logs on record have changed without a claim, by so many bytes.
func (s *Accounts) LogAdded(user string, by int64) { s.logs.adjust(user, by) }

// ArtifactsAdded is LogAdded for artifacts.
func (s *Accounts) ArtifactsAdded(user string, by int64) { s.artifacts.adjust(user, by) }

// LogBytes returns the bytes of a user's logs, of which recorded are on record.
func (s *Accounts) LogBytes(user string, recorded int64) int64 { return s.logs.now(user, recorded) }
