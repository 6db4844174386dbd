package session

import (
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// stopped is a clock that stands.
type stopped struct{ at time.Time }

func (c stopped) Now() time.Time { return c.at }
func (c stopped) AfterFunc(time.Duration, func()) (_ func() bool) {
	return func() bool { return false }
}

// A session is not ended because its record lags as much as it may; one that is over for good is.
func TestLapsed(t *testing.T) {
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	scope := belljar.Scope{Namespace: "workflow", ID: "1"}
	for _, test := range []struct {
		name    string
		spec    belljar.SessionSpec
		key     string
		expires time.Duration // after it was made, as on record
		now     time.Duration
		want    bool
	}{
		{"in its time", belljar.SessionSpec{TTLSec: 600}, "", 10 * time.Minute, 9 * time.Minute, false},
		{"a little late", belljar.SessionSpec{TTLSec: 600}, "", 10 * time.Minute, 11*time.Minute + 59*time.Second, false}, // 60 s of TTL, two passes
		{"late", belljar.SessionSpec{TTLSec: 600}, "", 10 * time.Minute, 12 * time.Minute, true},
		{"short", belljar.SessionSpec{TTLSec: 5}, "", 5 * time.Second, time.Minute, false},
		{"short and late", belljar.SessionSpec{TTLSec: 5}, "", 5 * time.Second, 66 * time.Second, true},
		{"over its lifetime", belljar.SessionSpec{TTLSec: 600, LifetimeSec: 300}, "", 5 * time.Minute, 5 * time.Minute, true},
		{"over the usual lifetime", belljar.SessionSpec{TTLSec: 1e6}, "", 24 * time.Hour, 24 * time.Hour, true},
		{"of a scope", belljar.SessionSpec{TTLSec: 600, Scope: scope}, scope.String(), 10 * time.Minute, 11 * time.Minute, false},
		{"retained", belljar.SessionSpec{TTLSec: 600, Scope: scope}, "", 10 * time.Minute, 9 * time.Minute, false},
		{"retained and over", belljar.SessionSpec{TTLSec: 600, Scope: scope}, "", 10 * time.Minute, 10 * time.Minute, true},
	} {
		s := (&Sessions{opts: Options{Terms: Terms{TTL: time.Hour, Lifetime: 24 * time.Hour, ReapEvery: 30 * time.Second}, Clock: stopped{made.Add(test.now)}}}).Recovery()
		row := store.Session{Spec: test.spec, Key: test.key, Session: belljar.Session{CreatedAt: made, ExpiresAt: made.Add(test.expires)}}
		if got := s.lapsed(row); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}
