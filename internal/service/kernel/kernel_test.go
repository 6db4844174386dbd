//go:build linux

package kernel

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/secret/redact"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/test/boxtest"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// session is a session without functions, which counts its records.
type session struct {
	table   *Table
	box     *box.Box
	path    string
	records int
}

func (x *session) Context() context.Context  { return context.Background() }
func (x *session) Session() belljar.Session  { return belljar.Session{ID: "1"} }
func (x *session) Contexts() *Table          { return x.table }
func (x *session) Record() error             { x.records++; return nil }
func (x *session) BeginContext(string) error { return nil }
func (x *session) Box() *box.Box             { return x.box }
func (x *session) Limits() belljar.Limits    { return belljar.Limits{} }
func (x *session) Execution() wire.Exec {
	return wire.Exec{Env: []string{"PATH=" + x.path}, UID: x.box.UID, GID: x.box.GID}
}

// newSession returns a session in a sandbox of the fake runtime, and its contexts. stop is called when a context ends.
func newSession(t *testing.T, stop func()) (*session, belljar.Contexts) {
	t.Helper()
	x := &session{box: boxtest.New(t), path: os.Getenv("PATH"), table: NewTable(Limits{}, func() *queue.Queue { return nil })}
	all := New(Options{
		Acquire: func(context.Context, belljar.Caller, string, bool) (Session, func(), error) { return x, func() {}, nil },
		Stop:    func(string, string) { stop() },
		Refused: func(_ belljar.Caller, _ string, err error) error { return err },
		Record:  func(event.Event) {},
		Now:     time.Now,
	})
	return x, all.As(belljar.Caller{ID: "ann"})
}

// A client that leaves while its context is deleted or restarted leaves no interpreter, and no record of the context as it was.
func TestLeaveWhileAContextEnds(t *testing.T) {
	leave := func() {}
	x, all := newSession(t, func() { leave() })
	for name, end := range map[string]func(ctx context.Context) error{
		"delete": func(ctx context.Context) error { return all.Delete(ctx, "1", "bash") },
		"restart": func(ctx context.Context) error {
			_, err := all.Restart(ctx, "1", "bash")
			return err
		},
	} {
		if _, err := all.Create(t.Context(), "1", belljar.ContextSpec{Language: "bash"}); err != nil {
			t.Fatal(err)
		}
		x.records = 0
		var ctx context.Context
		ctx, leave = context.WithCancel(t.Context())
		err := end(ctx)
		leave()
		shells, failed := agent.Shells(t.Context(), x.box.Agent)
		if name == "restart" {
			shells = nil // the new one may start
		}
		if failed != nil || len(shells) != 0 || x.records != 1 {
			t.Errorf("%s: %v; %+v, %v, recorded %d times", name, err, shells, failed, x.records)
		}
		leave = func() {}
	}
}

// Completions do not show the values of the session's secrets.
func TestCompletionsHideSecrets(t *testing.T) {
	x, all := newSession(t, func() {})
	const value = "hidden-command-1"
	dir := t.TempDir()
	for _, name := range []string{value, "hidden-not"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	x.path, x.box.Hidden = dir+":"+x.path, redact.New(value)
	if _, err := all.Create(t.Context(), "1", belljar.ContextSpec{Language: "bash"}); err != nil {
		t.Fatal(err)
	}
	got, err := all.Complete(t.Context(), "1", "bash", "hidden-")
	if want := []string{strings.Repeat(`\*`, len(value)), "hidden-not"}; err != nil || !slices.Equal(got.Matches, want) {
		t.Errorf("%q, %v", got.Matches, err)
	}
}

// Code is executed again in the order in which it was executed, not in that in which it was sent.
func TestReplayInOrder(t *testing.T) {
	x, _ := newSession(t, func() {})
	if _, err := x.table.Use("data", "bash", time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "order")
	earlier := func(yield func(belljar.Run, error) bool) {
		for i, word := range []string{"third", "first", "second"} { // the first one waited for an approval, and then came last
			started := time.Unix(1e9+int64(i+2)%3+10, 0)
			run := belljar.Run{
				ID: word, Phase: belljar.PhaseCompleted, ExitCode: new(0), StartedAt: &started, Command: []string{"echo " + word + " >> " + file},
				Context: &belljar.ContextRun{Name: "data", Language: "bash"},
			}
			if !yield(run, nil) {
				return
			}
		}
	}
	if n, err := x.table.Replay(t.Context(), x.box, x.Execution(), "data", earlier); n != 3 || err != nil {
		t.Fatalf("%d pieces of code, %v", n, err)
	}
	if got, err := os.ReadFile(file); string(got) != "first\nsecond\nthird\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A context that two requests make is that of the second if the first is given up.
func TestMakeAContextTwice(t *testing.T) {
	x, all := newSession(t, func() {})
	x.path = t.TempDir()
	if err := os.WriteFile(filepath.Join(x.path, "python3"), []byte("#!/bin/sh\nexec /bin/sleep 10000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	spec := belljar.ContextSpec{Language: "python"}
	ctx, giveUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := all.Create(ctx, "1", spec)
		first <- err
	}()
	for t.Context().Err() == nil {
		if list, err := all.List(t.Context(), "1"); err == nil && len(list) == 1 && list[0].State == belljar.ContextBusy {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if made, err := all.Create(t.Context(), "1", spec); err != nil || made.State != belljar.ContextBusy {
		t.Fatalf("%+v, %v", made, err)
	}
	giveUp()
	if err := <-first; err == nil {
		t.Error("the first request has it")
	}
	if list, err := all.List(t.Context(), "1"); err != nil || len(list) != 1 || list[0].State != belljar.ContextBusy {
		t.Errorf("the second request's context is gone: %+v, %v", list, err)
	}
}

// The last request that fails to start a context removes it: not one of the same name that was made since, and not one that was there before.
func TestLeaveAContext(t *testing.T) {
	now, spec := time.Unix(1e9, 0), belljar.ContextSpec{Name: "data", Language: "python"}
	all := NewTable(Limits{}, func() *queue.Queue { return nil })
	enter := func() *entry {
		e, _, err := all.enter(spec, now)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first, second := enter(), enter()
	if all.leave(first) || !all.leave(second) {
		t.Error("one that both failed to start: it went with the first, or stayed after the second")
	}
	deleted := enter()
	all.remove("data", now)
	enter()
	if all.leave(deleted) {
		t.Error("another one of its name is gone")
	}
	all.remove("data", now)
	all.Restore([]store.SavedContext{{Name: "data", Language: "python"}}, now)
	if all.leave(enter()) {
		t.Error("one that was restored is gone")
	}
}
