package box_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
)

// stub is a sandbox that counts queries.
type stub struct {
	kills int64
	cpu   time.Duration
	asked int
	err   error
	exit  runtime.Exit
}

func (s *stub) ID() string                                 { return "stub" }
func (s *stub) Dial(context.Context) (net.Conn, error)     { return nil, runtime.ErrGone }
func (s *stub) Destroy(context.Context) error              { return s.err }
func (s *stub) Wait(context.Context) (runtime.Exit, error) { return s.exit, s.err }
func (s *stub) Usage(context.Context) (runtime.Usage, error) {
	s.asked++
	kills := s.kills
	u := runtime.Usage{OOMKills: &kills}
	if s.cpu > 0 {
		u.CPU = &s.cpu
	}
	return u, s.err
}

// TestShared: the counters of a new sandbox are known without a query, and an old reading is refreshed.
func TestShared(t *testing.T) {
	var h box.Shared
	s := &stub{kills: 3}
	h.New()
	if u := h.Before(t.Context(), s); u.OOMKills != nil || s.asked != 0 {
		t.Errorf("a new sandbox was asked %d times: %+v", s.asked, u)
	}
	if u := h.Now(t.Context(), s); *u.OOMKills != 3 || s.asked != 1 {
		t.Errorf("%+v after %d questions", u, s.asked)
	}
	if u := h.Before(t.Context(), s); *u.OOMKills != 3 || s.asked != 1 {
		t.Errorf("a count that was just read was read again: %+v, %d questions", u, s.asked)
	}
	s.kills, s.err = 9, errors.New("no answer")
	if u := h.Now(t.Context(), s); *u.OOMKills != 3 {
		t.Errorf("without an answer it is %d, not the last count", *u.OOMKills)
	}
	var old box.Shared
	s.err = nil
	if u := old.Before(t.Context(), s); *u.OOMKills != 9 {
		t.Errorf("an unread count is %+v", u)
	}
}

// The counters of a sandbox can end with it. Then it has used its processors all the time since the last reading, at most.
func TestLostCounters(t *testing.T) {
	begun := time.Now()
	var h box.Shared
	h.Most(belljar.Limits{CPU: 2})
	h.New()
	known := &stub{cpu: 3 * time.Second}
	h.Now(t.Context(), known)
	if c := h.Charge(nil, 0); c.CPUSeconds != 3 {
		t.Errorf("%+v", c)
	}
	dead := &stub{kills: 1, err: fmt.Errorf("usage: %w", runtime.ErrGone)}
	if u := h.Now(t.Context(), dead); *u.OOMKills != 1 {
		t.Errorf("%+v", u)
	}
	cpu := h.CPU()
	if cpu == nil || *cpu <= 3*time.Second || *cpu > 3*time.Second+2*time.Since(begun) {
		t.Fatalf("%v", cpu)
	}
	h.Now(t.Context(), dead)
	if again := h.CPU(); *again != *cpu {
		t.Errorf("%v after a second query, not %v", *again, *cpu)
	}
	if c := h.Charge(nil, 0); math.Abs(c.CPUSeconds-(*cpu-3*time.Second).Seconds()) > 1e-6 {
		t.Errorf("%+v", c)
	}
	var unread box.Shared // of an earlier process
	if unread.Now(t.Context(), dead); unread.CPU() != nil {
		t.Errorf("%v", unread.CPU())
	}
}

func TestDeath(t *testing.T) {
	s := &stub{exit: runtime.Exit{Reason: runtime.ExitOOM}}
	if exit := box.ExitOf(t.Context(), s); exit == nil || exit.Reason != runtime.ExitOOM {
		t.Errorf("%+v", exit)
	}
	s.err = context.DeadlineExceeded
	if exit := box.ExitOf(t.Context(), s); exit != nil {
		t.Errorf("%+v", exit)
	}
}

// TestMeetShared: if agent and programs share a user, connecting to an agent that does not respond is an error.
func TestMeetShared(t *testing.T) {
	b, err := box.Connect(t.Context(), &stub{}, runtime.Capabilities{AgentUID: "shared"}, runtime.Root{})
	if err == nil || b == nil {
		t.Errorf("%+v, %v", b, err)
	}
	b, err = box.Connect(t.Context(), &stub{}, runtime.Capabilities{AgentUID: "separate"}, runtime.Root{UID: 33})
	if err != nil || b.UID != 33 || b.GID == 0 {
		t.Errorf("%+v, %v", b, err)
	}
	if req := b.File("a"); req.Path != "a" || req.UID != 33 || req.GID != b.GID {
		t.Errorf("%+v", req)
	}
}

func TestFetchError(t *testing.T) {
	m := maker(nil)
	m.Images = images{refused: &belljar.Error{Code: belljar.CodeForbidden, Message: "images are not pulled"}}
	p := placed(nil)
	p.Fetch = "docker.io/library/app:1"
	_, err := m.Make(t.Context(), box.Order{Placement: p})
	var fetch *box.FetchError
	if !errors.As(err, &fetch) || fetch.Reason().Code != belljar.CodeForbidden {
		t.Fatalf("%v", err)
	}
	m.Images = images{failure: errors.New("connection reset")}
	_, err = m.Make(t.Context(), box.Order{Placement: p})
	if !errors.As(err, &fetch) || fetch.Reason().Code != belljar.CodeImageUnavailable || fetch.Reason().Hint == "" {
		t.Fatalf("%v", err)
	}
}
