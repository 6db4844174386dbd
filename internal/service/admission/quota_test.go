package admission

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// used is a store with the same usage for every user, and the default quota.
type used struct {
	Users
	belljar.UserUsage
	records int64
}

func (u used) Recorded(context.Context, string) (all, recent int64, err error) {
	return u.records << 10, u.records, nil
}

func (u used) Quota(context.Context, string) (belljar.Quota, error) {
	return belljar.Quota{}, store.ErrNotFound
}

func (u used) Usage(context.Context, string, time.Time) (belljar.UserUsage, error) {
	return u.UserUsage, nil
}

// TestCheckDay: the daily quotas refuse at their limit and not before; that of the network refuses only requests with a network.
func TestCheckDay(t *testing.T) {
	evening := time.Date(2026, 11, 26, 23, 0, 0, 0, time.UTC)
	quota := belljar.Quota{CPUSecondsPerDay: 10, EgressMBPerDay: 3}
	for name, c := range map[string]struct {
		used    belljar.UserUsage
		quota   belljar.Quota
		network bool
		refused string
	}{
		"nothing used":             {belljar.UserUsage{}, quota, true, ""},
		"almost all":               {belljar.UserUsage{CPUSecondsToday: 9.9, EgressBytesToday: 3<<20 - 1}, quota, true, ""},
		"all the CPU time":         {belljar.UserUsage{CPUSecondsToday: 10}, quota, false, "cpu_seconds_per_day"},
		"all the bytes":            {belljar.UserUsage{EgressBytesToday: 3 << 20}, quota, true, "egress_mb_per_day"},
		"all, and without network": {belljar.UserUsage{EgressBytesToday: 3 << 20}, quota, false, ""},
		"all, and no limit":        {belljar.UserUsage{CPUSecondsToday: 10, EgressBytesToday: 3 << 20}, belljar.Quota{}, true, ""},
	} {
		a := Accounts{Users: used{UserUsage: c.used}, Default: c.quota, Now: func() time.Time { return evening }}
		err := a.CheckDay(t.Context(), "ann", c.network)
		var e *belljar.Error
		switch {
		case c.refused == "" && err == nil:
		case !errors.As(err, &e) || e.Code != belljar.CodeQuotaExceeded || e.Details["quota"] != c.refused || e.Details["retry_after_sec"] != 3601:
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRecordsCached checks that the size of a user's records is read if it can be near the quota, and after a while.
func TestRecordsCached(t *testing.T) {
	now := time.Date(2026, 11, 26, 23, 0, 0, 0, time.UTC)
	a := Accounts{Now: func() time.Time { return now }, NextSweep: func(context.Context, string) (time.Time, bool) { return now, false }}
	for n, c := range []struct {
		records int64
		later   time.Duration
		full    bool
	}{
		{records: 1 << 17},
		{records: 2 << 20}, // not read: at most 192 KiB
		{records: 2 << 20, later: time.Minute, full: true},
		{records: 1<<20 - 1},
		{records: 1 << 20, full: true},
		{records: 0},
		{}, {}, {}, {}, {}, {}, {records: 2 << 20}, // not read: at most 448 KiB
		{records: 2 << 20, full: true}, // may be half
	} {
		now = now.Add(c.later)
		a.Users = used{records: c.records}
		w, err := a.AffordLog(t.Context(), "ann", belljar.Quota{LogMB: 1})
		w.Close()
		if full := belljar.CodeOf(err) == belljar.CodeQuotaExceeded; full != c.full {
			t.Errorf("%d: full is %v: %v", n, full, err)
		}
	}
}

// TestAffordLog: a request that is refused because of its owner's logs gets the time of the next sweep, which is cached until then.
func TestAffordLog(t *testing.T) {
	now, asked := time.Date(2026, 11, 26, 23, 0, 0, 0, time.UTC), 0
	a := Accounts{
		Users: used{UserUsage: belljar.UserUsage{LogBytes: 1 << 20}}, Now: func() time.Time { return now },
		NextSweep: func(context.Context, string) (time.Time, bool) {
			asked++
			return now.Add(time.Hour), true
		},
	}
	for after, want := range []struct{ wait, asked int }{{3601, 1}, {1801, 1}, {3601, 2}} {
		var e *belljar.Error
		if _, err := a.AffordLog(t.Context(), "ann", belljar.Quota{LogMB: 1}); !errors.As(err, &e) || e.Details["retry_after_sec"] != want.wait || asked != want.asked {
			t.Errorf("after %d: %v, asked %d times", after, err, asked)
		}
		now = now.Add(30 * time.Minute)
	}
	for name, c := range map[string]struct {
		logs, records int64
		quota         int
		message       string
	}{
		"room for both":       {1<<19 - 1, 1 << 19, 1, ""},
		"logs and records":    {1 << 19, 1 << 19, 1, "the logs and records of your runs take up 1 of 1 MiB"},
		"records alone":       {0, 2 << 20, 1, "the logs and records of your runs take up 2 of 1 MiB"},
		"records of no limit": {0, 2 << 20, 0, ""},
	} {
		a.Users = used{UserUsage: belljar.UserUsage{LogBytes: c.logs}, records: c.records}
		w, err := a.AffordLog(t.Context(), name, belljar.Quota{LogMB: c.quota})
		w.Close()
		var e *belljar.Error
		switch {
		case c.message == "" && err == nil:
		case !errors.As(err, &e) || e.Code != belljar.CodeQuotaExceeded || e.Message != c.message || e.Details["quota"] != "log_mb":
			t.Errorf("%s: %v", name, err)
		}
	}
}
