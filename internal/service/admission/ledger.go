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

// ledger counts the bytes of one kind that users keep, artifacts or logs, so that runs under way at the same time do not take
// the same room twice. The zero value is ready.
type ledger struct {
	mu       sync.Mutex
	accounts map[string]*account
}

// account is one user's. It is read from the record when nothing of theirs is under way, and kept up to date from then on.
type account struct {
	uses int // of it; guarded by the ledger's mu

	mu     sync.Mutex
	open   int   // claims
	used   int64 // on record, and taken by claims
	most   int64
	flight int64 // of used, what is not on record yet
	until  time.Time
}

// Allowance is one run's claim on its owner's account. A nil one has room for everything and counts nothing.
type Allowance struct {
	ledger  *ledger
	account *account
	taken   int64
}

// allow opens a claim on what a user's quota leaves, most MiB in all; 0 is no limit. of picks the kind from what is on record.
func (s *Accounts) allow(ctx context.Context, l *ledger, user string, most int, of func(belljar.UserUsage) int64) (*Allowance, error) {
	a := l.account(user)
	a.mu.Lock()
	now := s.Now()
	if a.open == 0 && !now.Before(a.until) {
		// Nothing of this user is on its way to the record now, so that the record is the whole truth.
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

// account is a user's, to be left with leave.
func (l *ledger) account(user string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[user]
	if a == nil {
		if l.accounts == nil {
			l.accounts = map[string]*account{}
		}
		for other, idle := range l.accounts {
			if len(l.accounts) >= maxQuotas && idle.uses == 0 {
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

// adjust notes that a user's bytes on record have changed without a claim.
func (l *ledger) adjust(user string, by int64) {
	a := l.account(user)
	defer l.leave(a)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = max(0, a.used+by)
}

// flying is what is not on record yet: a user's, and everyone's.
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

// Reserve takes room for n bytes, or reports that there is none.
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

// ReserveUpTo takes room for up to n bytes, and reports for how many.
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

// Release gives room for n bytes back.
func (w *Allowance) Release(n int64) {
	w.account.mu.Lock()
	defer w.account.mu.Unlock()
	w.add(-n)
}

// SetTo makes the claim n bytes, whether there is room for them or not: they are there.
func (w *Allowance) SetTo(n int64) {
	if w == nil {
		return
	}
	w.account.mu.Lock()
	defer w.account.mu.Unlock()
	w.add(n - w.taken)
}

// add changes what the claim has taken. The caller holds the account's mu.
func (w *Allowance) add(n int64) {
	w.taken += n
	w.account.used += n
	w.account.flight += n
}

// Left is how much the owner has used of their quota.
func (w *Allowance) Left() (used, most int64) {
	w.account.mu.Lock()
	defer w.account.mu.Unlock()
	return w.account.used, w.account.most
}

// Close ends the claim, when what it has taken is on record.
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

// now is how much a user keeps: what is on record, and while something is under way, that too.
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

// LogAdded notes that a user's logs on record have changed without a claim, and ArtifactsAdded that their artifacts have.
func (s *Accounts) LogAdded(user string, by int64) { s.logs.adjust(user, by) }

// ArtifactsAdded is LogAdded for artifacts.
func (s *Accounts) ArtifactsAdded(user string, by int64) { s.artifacts.adjust(user, by) }

// LogBytes is how much a user's logs hold, of which so much is on record.
func (s *Accounts) LogBytes(user string, recorded int64) int64 { return s.logs.now(user, recorded) }
