package kernel

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/store"
)

// The saved state of a context includes its restart: code from before is not replayed. The context is lost until a run reports it, or the
// session resumed with it.
func TestSaved(t *testing.T) {
	branch := func() *queue.Queue { return nil }
	made := time.Unix(1e9, 0)
	was := NewTable(Limits{}, branch)
	e, _, err := was.enter(belljar.ContextSpec{Name: "data", Language: "python", Cwd: "work"}, made)
	if err != nil {
		t.Fatal(err)
	}
	was.restart(e, made.Add(time.Minute))
	for _, keep := range []bool{false, true} {
		is := NewTable(Limits{}, branch)
		is.Restore(was.Save(), made)
		got, err := is.find("data")
		if err != nil || got.language != "python" || got.cwd != "work" || !got.made.Equal(made) || !got.since.Equal(made.Add(time.Minute)) {
			t.Fatalf("%+v, %v", got, err)
		}
		if keep {
			is.Keep(was.Save())
		}
		if first, second := is.Lost("data"), is.Lost("data"); first == keep || second {
			t.Errorf("kept %v: lost %v, %v", keep, first, second)
		}
	}
}

// A context that no run has used since its session resumed without its variables still lacks them after another, live hibernation.
func TestSavedWithoutVariables(t *testing.T) {
	is, now := NewTable(Limits{}, func() *queue.Queue { return nil }), time.Unix(1e9, 0)
	for _, name := range []string{"used", "unused"} {
		if _, err := is.Use(name, "bash", now); err != nil {
			t.Fatal(err)
		}
	}
	is.Restore(is.Save(), now)
	if !is.Lost("used") {
		t.Error("the variables are there after a hibernation without them")
	}
	saved := is.Save()
	is.Restore(saved, now)
	is.Keep(saved)
	if used, unused := is.Lost("used"), is.Lost("unused"); used || !unused {
		t.Errorf("used lost: %v, unused lost: %v", used, unused)
	}
}

// The next process has the contexts on record, including those that its agent does not know. Code of a younger context starts anew.
func TestRecoverSaved(t *testing.T) {
	branch := func() *queue.Queue { return nil }
	made := time.Unix(1e9, 0)
	now := made.Add(time.Hour)
	saved := []store.SavedContext{
		{Name: "used", Language: "python", CreatedAt: made, Since: made.Add(time.Minute), Lost: true, Failed: true}, // the record lags
		{Name: "first", Language: "bash", CreatedAt: made, Lost: true, Failed: true}, {Name: "kept", Language: "bash", CreatedAt: made},
		{Name: "unused", Language: "bash", Cwd: "work", CreatedAt: made, Lost: true, Failed: true},
		{Name: "waits", Language: "bash", CreatedAt: made},
		{Name: "other", Language: "bash", CreatedAt: made},
	}
	shells := []wire.ShellInfo{
		{Name: prefix + "used", Kernel: wire.KernelPython, Runs: 1, AgeMS: 1000}, {Name: prefix + "other", Kernel: wire.KernelPython, AgeMS: 1000},
		{Name: prefix + "first", Runs: 1, Busy: true}, {Name: prefix + "kept", Runs: 1, Busy: true},
		{Name: prefix + "young", Cwd: belljar.WorkspaceDir + "/sub", AgeMS: 1000}, {Name: prefix + "elsewhere", Cwd: "/usr", AgeMS: 1000},
	}
	table := NewTable(Limits{}, branch)
	table.Recover(shells, nil, saved, now)
	about := now.Add(-2 * time.Second)
	for name, want := range map[string]struct {
		language, cwd string
		since         time.Time
		lost          bool
	}{
		"used": {"python", "", made.Add(time.Minute), false}, "unused": {"bash", "work", time.Time{}, true},
		"first": {"bash", "", time.Time{}, true}, "kept": {"bash", "", time.Time{}, false}, "waits": {"bash", "", time.Time{}, false},
		"other": {"python", "", about, false}, "young": {"bash", "sub", about, false}, "elsewhere": {"bash", "", about, false},
	} {
		got, err := table.find(name)
		if err != nil || got.language != want.language || got.cwd != want.cwd || !got.since.Equal(want.since) || got.lost != want.lost || got.failed != want.lost {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, want := range map[string]bool{"used": false, "waits": false, "unused": false, "other": true, "young": true, "none": false} {
		if first, second := table.Fresh(name), table.Fresh(name); first != want || second {
			t.Errorf("%s is not on record: %v, %v", name, first, second)
		}
	}
	table.remove("used", now.Add(time.Minute))
	if e, _, err := table.enter(belljar.ContextSpec{Name: "used", Language: "python"}, now.Add(time.Hour)); err != nil || !e.since.Equal(now.Add(time.Minute)) {
		t.Errorf("made again: %+v, %v", e, err)
	}
	for _, test := range []struct {
		name string
		err  error
		want int
	}{
		{"an older agent", fmt.Errorf("shells: %w", agent.ErrProtocol), 0}, {"an older agent refuses", &wire.Error{Code: wire.CodeInvalid}, 0},
		{"an agent that does not answer in time", context.DeadlineExceeded, len(saved)},
	} {
		table = NewTable(Limits{}, branch)
		if table.Recover(nil, test.err, saved, now); len(table.all()) != test.want {
			t.Errorf("%s: %+v", test.name, table.all())
		}
	}
}

// A hijacked agent sends many shells, and names that no context can have.
func TestForgedContexts(t *testing.T) {
	shells := []wire.ShellInfo{{Name: prefix + "a\nb"}, {Name: prefix}, {Name: prefix + "own"}}
	for i := range 1000 {
		shells = append(shells, wire.ShellInfo{Name: fmt.Sprint(prefix, i)})
	}
	table := NewTable(Limits{Most: 1}, func() *queue.Queue { return nil })
	table.Recover(shells, nil, nil, time.Now())
	for _, e := range table.all() {
		if belljar.CheckContextName("name", e.name) != nil {
			t.Errorf("a context %q", e.name)
		}
	}
	if _, err := table.find("own"); err != nil || len(table.all()) > mostShells {
		t.Errorf("%d contexts, %v", len(table.all()), err)
	}
}
