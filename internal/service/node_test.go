//go:build linux

package service_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// A user sees the network rules of other users neither by name nor by content. The hash covers all of them.
func TestPolicyOfOtherUsers(t *testing.T) {
	b := newBench(t, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.EgressAllowUsers = []string{"ann=a.example.com", "bob=b.example.com", "x=ann=c.example.com"}
	})
	hash := ""
	for _, c := range []struct {
		user belljar.Caller
		want any
	}{
		{service.Local(), []any{"ann=a.example.com", "bob=b.example.com", "x=ann=c.example.com"}},
		{belljar.Caller{ID: "ann", Role: belljar.RoleUser}, []any{"ann=a.example.com"}},
		{belljar.Caller{ID: "x=ann", Role: belljar.RoleUser}, []any{"x=ann=c.example.com"}},
		{belljar.Caller{ID: "x", Role: belljar.RoleUser}, nil},
	} {
		me, err := b.service.As(c.user).Node().Me(t.Context())
		if got := me.Policy["SANDBOX_EGRESS_ALLOW_USERS"]; err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) || me.PolicyHash != hash && hash != "" {
			t.Errorf("%s: %v, not %v; hash %s, %v", c.user.ID, got, c.want, me.PolicyHash, err)
		}
		hash = me.PolicyHash
	}
}

// shared is a text that goroutines write.
type shared struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shared) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(line)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// The server's log names the program of a run, and never contains its arguments or code.
func TestLogWithoutCommands(t *testing.T) {
	var text shared
	b := newBench(t, func(o *service.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	x := b.open()
	if _, err := b.service.As(service.Local()).Contexts().Create(t.Context(), x.ID, belljar.ContextSpec{Language: "python", Name: "data"}); err != nil {
		t.Fatal(err)
	}
	b.run(shellIn(x.ID, ": password")).want(t, belljar.PhaseCompleted, 0, "")
	b.run(inContext(x.ID, "data", "'password'")).want(t, belljar.PhaseCompleted, 0, "")
	b.run(in(x, ": password")).want(t, belljar.PhaseCompleted, 0, "")
	b.run(command("TOKEN=password curl")).want(t, belljar.PhaseFailed, 127, belljar.ReasonExecFailed)
	b.run(command("/opt/bin/curl -H 'Authorization: Bearer password' https://x")).want(t, belljar.PhaseFailed, 127, belljar.ReasonExecFailed)
	b.end(x)
	got := text.String()
	for _, want := range []string{"command=shell ", `command="context data"`, "command=sh ", "command=TOKEN ", "command=curl "} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(got, "password") {
		t.Error("the log has a command")
	}
	if t.Failed() {
		t.Log(got)
	}
}
