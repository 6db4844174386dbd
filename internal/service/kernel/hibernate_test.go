package kernel

import (
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/queue"
)

// What is kept of a context has its restart, before which no code is executed again. It is lost until a run knows, or the session woke with it.
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
		is.Restore(was.Save())
		got, err := is.find("data")
		if err != nil || got.language != "python" || got.cwd != "work" || !got.made.Equal(made) || !got.since.Equal(made.Add(time.Minute)) {
			t.Fatalf("%+v, %v", got, err)
		}
		if keep {
			is.Keep()
		}
		if first, second := is.Lost("data"), is.Lost("data"); first == keep || second {
			t.Errorf("kept %v: lost %v, %v", keep, first, second)
		}
	}
}
