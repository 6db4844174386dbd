package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// quotaFor is for how long a quota that was read is believed: one that another daemon on the same store changes holds
// here by then.
const quotaFor = 10 * time.Second

// quotas remembers the quotas of users who are active. The zero value is empty.
type quotas struct {
	mu    sync.Mutex
	known map[string]knownQuota
}

type knownQuota struct {
	belljar.Quota
	until time.Time
}

// maxQuotas bounds how many are remembered.
const maxQuotas = 4096

func (c *quotas) get(user string, now time.Time) (belljar.Quota, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.known[user]
	return k.Quota, ok && now.Before(k.until)
}

func (c *quotas) put(user string, q belljar.Quota, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxQuotas {
		c.known = map[string]knownQuota{}
	}
	c.known[user] = knownQuota{q, now.Add(quotaFor)}
}

// quota is how much a user may have: what is stored for him, or what everybody has.
func (s *Service) quota(ctx context.Context, user string) (belljar.Quota, error) {
	now := s.clock.Now()
	if q, ok := s.quotas.get(user, now); ok {
		return q, nil
	}
	q, err := s.opts.Store.Users().Quota(ctx, user)
	switch {
	case errors.Is(err, store.ErrNotFound):
		q = s.opts.Quota
	case err != nil:
		return q, recordError("read the quota of "+user, err)
	}
	s.quotas.put(user, q, now)
	return q, nil
}

// afford refuses a run to a user who has used up his CPU time of the day. The day ends at midnight UTC.
func (s *Service) afford(ctx context.Context, user string, q belljar.Quota) error {
	if q.CPUSecondsPerDay <= 0 {
		return nil
	}
	now := s.clock.Now().UTC()
	used, err := s.opts.Store.Users().Usage(ctx, user, now)
	if err != nil {
		return recordError("read the usage of "+user, err)
	}
	if used.CPUSecondsToday < q.CPUSecondsPerDay {
		return nil
	}
	return &belljar.Error{
		Code:    belljar.CodeQuotaExceeded,
		Message: fmt.Sprintf("%v of %v CPU seconds of the day are used up", hundredths(used.CPUSecondsToday), hundredths(q.CPUSecondsPerDay)),
		Details: map[string]any{
			"quota": "cpu_seconds_per_day", "limit": q.CPUSecondsPerDay, "used": used.CPUSecondsToday,
			"retry_after_sec": int(now.Truncate(24*time.Hour).Add(24*time.Hour).Sub(now).Seconds()) + 1,
		},
		Hint: "the count begins anew at midnight UTC",
	}
}

// allowArtifacts opens a claim on what a user's quota leaves for artifacts.
func (s *Service) allowArtifacts(ctx context.Context, user string) (*allowance, error) {
	q, err := s.quota(ctx, user)
	if err != nil {
		return nil, err
	}
	return s.allow(ctx, &s.artifacts, user, q.ArtifactMB, func(u belljar.UserUsage) int64 { return u.ArtifactBytes })
}

// allowLog opens a run's claim on what its owner's quota leaves for logs.
func (s *Service) allowLog(ctx context.Context, user string, q belljar.Quota) (*allowance, error) {
	return s.allow(ctx, &s.logs, user, q.LogMB, func(u belljar.UserUsage) int64 { return u.LogBytes })
}

// affordLog is allowLog for a new run: it is refused if nothing is left.
func (s *Service) affordLog(ctx context.Context, user string, q belljar.Quota) (*allowance, error) {
	w, err := s.allowLog(ctx, user, q)
	if err != nil {
		return nil, err
	}
	used, most := w.left()
	if used < most {
		return w, nil
	}
	w.close()
	return nil, &belljar.Error{
		Code:    belljar.CodeQuotaExceeded,
		Message: fmt.Sprintf("the logs of your runs take up %v of %d MiB", hundredths(float64(used)/(1<<20)), q.LogMB),
		Details: map[string]any{"quota": "log_mb", "limit": q.LogMB, "used": hundredths(float64(used) / (1 << 20))},
		Hint:    s.logsGo() + "; an operator can allow more with log_mb in your quota",
	}
}

// logsGo says when logs are deleted.
func (s *Service) logsGo() string {
	if hours := s.opts.Policy.ArtifactTTLHours; hours > 0 {
		return fmt.Sprintf("wait: logs are deleted %d hours after their runs end (SANDBOX_ARTIFACT_TTL_HOURS)", hours)
	}
	return fmt.Sprintf("wait: logs are deleted %d days after their runs end (SANDBOX_RUN_RETENTION_DAYS)", s.opts.RowDays)
}

func hundredths(f float64) float64 { return math.Round(f*100) / 100 }
