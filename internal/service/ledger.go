package service

import (
	"context"
	"math"
	"sync"

	"github.com/belljar/belljar"
)

// ledger counts the artifact bytes of users while they are captured, so that runs that end at the same time do not take
// the same room twice. The zero value is ready.
type ledger struct {
	mu       sync.Mutex
	accounts map[string]*account
}

// account is one user's, open while something of his is captured.
type account struct {
	uses int
	used int64 // on record when it was opened, and captured since
	most int64
}

// allowance is one run's claim on its owner's account.
type allowance struct {
	ledger *ledger
	user   string
	taken  int64
}

// allow opens a claim on what a user's quota leaves for artifacts.
func (s *Service) allow(ctx context.Context, user string) (*allowance, error) {
	q, err := s.quota(ctx, user)
	if err != nil {
		return nil, err
	}
	most := int64(math.MaxInt64)
	if q.ArtifactMB > 0 {
		most = int64(q.ArtifactMB) << 20
	}
	l := &s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[user]
	if a == nil {
		// Nothing of this user is between capture and record now, so that the record is the whole truth.
		var used belljar.UserUsage
		if q.ArtifactMB > 0 {
			if used, err = s.opts.Store.Users().Usage(ctx, user, s.clock.Now()); err != nil {
				return nil, recordError("read the usage of "+user, err)
			}
		}
		a = &account{used: used.ArtifactBytes}
		if l.accounts == nil {
			l.accounts = map[string]*account{}
		}
		l.accounts[user] = a
	}
	a.uses++
	a.most = most
	return &allowance{ledger: l, user: user}, nil
}

// take takes room for n bytes, or reports that there is none.
func (w *allowance) take(n int64) bool {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	a := w.ledger.accounts[w.user]
	if n > a.most-a.used {
		return false
	}
	a.used += n
	w.taken += n
	return true
}

// back gives room for n bytes back.
func (w *allowance) back(n int64) {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	w.ledger.accounts[w.user].used -= n
	w.taken -= n
}

// close ends the claim, when what was captured is on record. A nil one is none.
func (w *allowance) close() {
	if w == nil {
		return
	}
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	a := w.ledger.accounts[w.user]
	a.uses--
	if a.uses == 0 {
		delete(w.ledger.accounts, w.user)
	}
}
