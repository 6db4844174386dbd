package retry

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar/internal/store"
)

// hasty is a clock on which every pause ends immediately. It records them.
type hasty struct{ pauses []time.Duration }

func (h *hasty) Now() time.Time { return time.Time{} }
func (h *hasty) AfterFunc(d time.Duration, f func()) func() bool {
	h.pauses = append(h.pauses, d)
	f()
	return func() bool { return false }
}

// never is a clock on which no pause ends.
type never struct{}

func (never) Now() time.Time                              { return time.Time{} }
func (never) AfterFunc(time.Duration, func()) func() bool { return func() bool { return true } }

func TestRetries(t *testing.T) {
	c := &hasty{}
	w := Writer{Clock: c, Closing: t.Context(), Log: slog.New(slog.DiscardHandler)}
	tries := 0
	ok := w.Do(func() error {
		if tries++; tries < 9 {
			return errors.New("busy")
		}
		return nil
	})
	var ms []int64
	for _, d := range c.pauses {
		ms = append(ms, d.Milliseconds())
	}
	if diff := cmp.Diff([]int64{100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000}, ms); diff != "" || !ok || tries != 9 {
		t.Errorf("%v after %d attempts, pauses (-want +got):\n%s", ok, tries, diff)
	}
}

// A write that the store refuses permanently is not retried.
func TestGivesUp(t *testing.T) {
	for _, refusal := range []error{store.ErrNotFound, store.ErrInvalid, store.ErrClosed, store.ErrEnded} {
		w := Writer{Clock: &hasty{}, Closing: t.Context(), Log: slog.New(slog.DiscardHandler)}
		tries := 0
		if w.Do(func() error { tries++; return refusal }) || tries != 1 {
			t.Errorf("%v: %d attempts", refusal, tries)
		}
	}
}

func TestEndsWithTheService(t *testing.T) {
	closing, closeNow := context.WithCancel(t.Context())
	closeNow()
	w := Writer{Clock: never{}, Closing: closing, Log: slog.New(slog.DiscardHandler)}
	if w.Do(func() error { t.Error("written while the service closes"); return nil }) {
		t.Error("reported as written")
	}
}
