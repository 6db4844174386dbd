package session

import (
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// stopped is a clock that stands still.
type stopped struct{ at time.Time }

func (c stopped) Now() time.Time { return c.at }
func (c stopped) AfterFunc(time.Duration, func()) (_ func() bool) {
	return func() bool { return false }
}

// A session is not ended because its record lags by the permitted amount. A session that has really expired is.
func TestLapsed(t *testing.T) {
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	scope := belljar.Scope{Namespace: "workflow", ID: "1"}
	for _, test := range []struct {
		name    string
		spec    belljar.SessionSpec
		key     string
		expires time.Duration // after it was made, in its record
		now     time.Duration
		want    bool
		decided time.Duration // approval, after it was made; 0 for none
	}{
		{"in its time", belljar.SessionSpec{TTLSec: 600}, "", 10 * time.Minute, 9 * time.Minute, false, 0},
		{"a little late", belljar.SessionSpec{TTLSec: 600}, "", 10 * time.Minute, 11*time.Minute + 59*time.Second, false, 0}, // 60 s of TTL, two passes
		{"late", belljar.SessionSpec{TTLSec: 600}, "", 10 * time.Minute, 12 * time.Minute, true, 0},
		{"short", belljar.SessionSpec{TTLSec: 5}, "", 5 * time.Second, time.Minute, false, 0},
		{"short and late", belljar.SessionSpec{TTLSec: 5}, "", 5 * time.Second, 66 * time.Second, true, 0},
		{"over its lifetime", belljar.SessionSpec{TTLSec: 600, LifetimeSec: 300}, "", 5 * time.Minute, 5 * time.Minute, true, 0},
		{"over the usual lifetime", belljar.SessionSpec{TTLSec: 1e6}, "", 24 * time.Hour, 24 * time.Hour, true, 0},
		{"long in wait of its approval", belljar.SessionSpec{TTLSec: 600, LifetimeSec: 3600}, "", 100 * time.Minute, 99 * time.Minute, false, 50 * time.Minute},
		{"approved, and over", belljar.SessionSpec{TTLSec: 6000, LifetimeSec: 3600}, "", 110 * time.Minute, 110 * time.Minute, true, 50 * time.Minute},
		{"of a scope", belljar.SessionSpec{TTLSec: 600, Scope: scope}, scope.String(), 10 * time.Minute, 11 * time.Minute, false, 0},
		{"retained", belljar.SessionSpec{TTLSec: 600, Scope: scope}, "", 10 * time.Minute, 9 * time.Minute, false, 0},
		{"retained and over", belljar.SessionSpec{TTLSec: 600, Scope: scope}, "", 10 * time.Minute, 10 * time.Minute, true, 0},
	} {
		s := (&Sessions{opts: Options{Terms: Terms{TTL: time.Hour, Lifetime: 24 * time.Hour, ReapEvery: 30 * time.Second}, Clock: stopped{made.Add(test.now)}}}).Recovery()
		row := store.Session{Spec: test.spec, Key: test.key, Session: belljar.Session{CreatedAt: made, ExpiresAt: made.Add(test.expires)}}
		if at := made.Add(test.decided); test.decided > 0 {
			row.Approval = &belljar.Approval{State: belljar.ApprovalApproved, DecidedAt: &at}
		}
		if got := s.lapsed(row); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}
