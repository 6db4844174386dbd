package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// quota is how much a user may have: what is stored for him, or what everybody has.
func (s *Service) quota(ctx context.Context, user string) (belljar.Quota, error) {
	q, err := s.opts.Store.Users().Quota(ctx, user)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return s.opts.Quota, nil
	case err != nil:
		return q, recordError("read the quota of "+user, err)
	}
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
		Message: fmt.Sprintf("%.0f of %.0f CPU seconds of the day are used up", used.CPUSecondsToday, q.CPUSecondsPerDay),
		Details: map[string]any{
			"quota": "cpu_seconds_per_day", "limit": q.CPUSecondsPerDay, "used": used.CPUSecondsToday,
			"retry_after_sec": int(now.Truncate(24*time.Hour).Add(24*time.Hour).Sub(now).Seconds()) + 1,
		},
		Hint: "the count begins anew at midnight UTC",
	}
}
