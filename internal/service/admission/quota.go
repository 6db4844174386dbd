package admission

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// quotaFor is how long a quota from the store is cached: a change by another server on the same store applies here after this time.
const quotaFor = 10 * time.Second

// The size of a user's records is cached for recordsFor, and counts likelyRecord more for each run that begins meanwhile. A record with a long list of
// artifacts is larger, so the time is short.
const (
	recordsFor   = time.Second
	likelyRecord = 64 << 10
)

// Users is the part of the store about users.
type Users interface {
	Quota(ctx context.Context, userID string) (belljar.Quota, error)
	Usage(ctx context.Context, userID string, now time.Time) (belljar.UserUsage, error)
	Charge(ctx context.Context, userID string, c store.Charge, now time.Time) error
	Kept(ctx context.Context) (bytes int64, users int, err error)
	Recorded(ctx context.Context, userID string) (all, recent int64, err error)
}

// Accounts track the quotas of users, and their use of the disk. Set the fields before the first use.
type Accounts struct {
	Users   Users
	Default belljar.Quota // of a user without a stored quota
	Now     func() time.Time
	// FreeBytes returns the free space of the data disk. Below MinFreeBytes new runs are refused. nil disables the check.
	FreeBytes    func() (uint64, error)
	MinFreeBytes uint64
	// FreeFiles returns how many files that disk still has room for, and its total number; 0 if it does not count them. While fewer than one in
	// FilesKept are free, new runs are refused. nil disables the check.
	FreeFiles func() (free, all uint64, err error)
	// Wait describes how long logs are kept.
	Wait string
	// NextSweep returns when a user's oldest log is deleted; false if that is not known. It may read all of the user's runs.
	NextSweep func(ctx context.Context, user string) (time.Time, bool)

	artifacts, logs ledger
	quotas          cache[belljar.Quota]
	sweeps          cache[time.Time]     // when the oldest log of a user without room is deleted
	records         cache[*atomic.Int64] // bytes of a user's records
}

// cache keeps a value of each active user for some time. The zero value is empty.
type cache[V any] struct {
	mu    sync.Mutex
	known map[string]cached[V]
}

type cached[V any] struct {
	value V
	until time.Time
}

// maxCached bounds the number of users in a cache.
const maxCached = 4096

func (c *cache[V]) get(user string, now time.Time) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.known[user]
	return k.value, ok && now.Before(k.until)
}

func (c *cache[V]) put(user string, v V, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxCached {
		c.known = map[string]cached[V]{}
	}
	c.known[user] = cached[V]{v, until}
}

// nextSweep caches the result of NextSweep until that time, because clients may retry refused requests often.
func (a *Accounts) nextSweep(ctx context.Context, user string) (t time.Time, known bool) {
	if t, known = a.sweeps.get(user, a.Now()); known {
		return t, true
	}
	if t, known = a.NextSweep(ctx, user); known {
		a.sweeps.put(user, t, t)
	}
	return t, known
}

// Quota returns a user's stored quota, or the default quota.
func (a *Accounts) Quota(ctx context.Context, user string) (belljar.Quota, error) {
	now := a.Now()
	if q, ok := a.quotas.get(user, now); ok {
		return q, nil
	}
	q, err := a.Users.Quota(ctx, user)
	switch {
	case errors.Is(err, store.ErrNotFound):
		q = a.Default
	case err != nil:
		return q, fault.Record("read the quota of "+user, err)
	default:
		q.Own = true
	}
	a.quotas.put(user, q, now.Add(quotaFor))
	return q, nil
}

// SetQuota updates the cached quota of a user; nil is the default.
func (a *Accounts) SetQuota(user string, q *belljar.Quota) {
	own := a.Default
	if q != nil {
		own = *q
		own.Own = true
	}
	a.quotas.put(user, own, a.Now().Add(quotaFor))
}

// CheckDay refuses a run, a session or a terminal to a user whose daily CPU time is used up, and one with a network to a user whose daily
// bytes are used up. The day ends at midnight UTC.
func (a *Accounts) CheckDay(ctx context.Context, user string, network bool) error {
	q, err := a.Quota(ctx, user)
	if err != nil {
		return err
	}
	network = network && q.EgressMBPerDay > 0
	if q.CPUSecondsPerDay <= 0 && !network {
		return nil
	}
	now := a.Now().UTC()
	used, err := a.Users.Usage(ctx, user, now)
	if err != nil {
		return fault.Record("read the usage of "+user, err)
	}
	switch egress := float64(used.EgressBytesToday) / (1 << 20); {
	case q.CPUSecondsPerDay > 0 && used.CPUSecondsToday >= q.CPUSecondsPerDay:
		return usedUp(now, "cpu_seconds_per_day", "CPU seconds", used.CPUSecondsToday, q.CPUSecondsPerDay)
	case network && egress >= float64(q.EgressMBPerDay):
		return usedUp(now, "egress_mb_per_day", "MiB over the network", egress, float64(q.EgressMBPerDay))
	}
	return nil
}

func usedUp(now time.Time, quota, of string, used, limit float64) error {
	return &belljar.Error{
		Code:    belljar.CodeQuotaExceeded,
		Message: fmt.Sprintf("%v of %v %s of the day are used up", Hundredths(used), Hundredths(limit), of),
		Details: map[string]any{
			"quota": quota, "limit": limit, "used": used,
			"retry_after_sec": int(now.Truncate(24*time.Hour).Add(24*time.Hour).Sub(now).Seconds()) + 1,
		},
		Hint: "the count starts again at midnight UTC",
	}
}

// AllowArtifacts opens a claim on the rest of a user's quota for artifacts.
func (a *Accounts) AllowArtifacts(ctx context.Context, user string) (*Allowance, error) {
	q, err := a.Quota(ctx, user)
	if err != nil {
		return nil, err
	}
	return a.allow(ctx, &a.artifacts, user, q.ArtifactMB, func(u belljar.UserUsage) int64 { return u.ArtifactBytes })
}

// AllowLog opens a run's claim on the rest of its owner's quota for logs.
func (a *Accounts) AllowLog(ctx context.Context, user string, q belljar.Quota) (*Allowance, error) {
	return a.allow(ctx, &a.logs, user, q.LogMB, func(u belljar.UserUsage) int64 { return u.LogBytes })
}

// AffordLog is AllowLog for a new run: it is refused if no quota is left. The record of a run counts as long as its log: a program can print
// nothing and have a record of some ten KiB.
func (a *Accounts) AffordLog(ctx context.Context, user string, q belljar.Quota) (*Allowance, error) {
	w, err := a.AllowLog(ctx, user, q)
	if err != nil {
		return nil, err
	}
	used, most := w.Left()
	kind := "logs"
	if used < most && q.LogMB > 0 {
		now := a.Now()
		records, known := a.records.get(user, now)
		if !known || used+records.Add(likelyRecord) >= most/2 { // to read it for each command of a session is 6 % of what the server computes for one
			_, bytes, err := a.Users.Recorded(ctx, user)
			if err != nil {
				w.Close()
				return nil, fault.Record("read the size of the records of "+user, err)
			}
			records = new(atomic.Int64)
			records.Store(bytes)
			a.records.put(user, records, now.Add(recordsFor))
		}
		used, kind = used+records.Load(), "logs and records"
	}
	if used < most {
		return w, nil
	}
	w.Close()
	e := &belljar.Error{
		Code:    belljar.CodeQuotaExceeded,
		Message: fmt.Sprintf("the %s of your runs take up %v of %d MiB", kind, MiB(used), q.LogMB),
		Details: map[string]any{"quota": "log_mb", "limit": q.LogMB, "used": MiB(used)},
		Hint:    a.Wait + "; an operator can allow more with log_mb in your quota",
	}
	if t, known := a.nextSweep(ctx, user); known {
		e.Details["retry_after_sec"] = int(t.Sub(a.Now()).Seconds()) + 1
	}
	return nil, e
}

// Hundredths rounds f to two decimal places.
func Hundredths(f float64) float64 { return math.Round(f*100) / 100 }

// MiB converts bytes to MiB, for messages and details about quotas.
func MiB(bytes int64) float64 { return Hundredths(float64(bytes) / (1 << 20)) }
