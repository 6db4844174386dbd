package meter

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// sandbox counts its readings.
type sandbox struct {
	runtime.Sandbox
	mu    sync.Mutex
	reads int
	usage runtime.Usage
	err   error
}

func (s *sandbox) Usage(context.Context) (runtime.Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return s.usage, s.err
}

// world has a clock that stands still, and timers that the test fires.
type world struct {
	meter *Meter
	now   time.Time
	box   runtime.Sandbox
	limit int64

	set    chan struct{} // receives a value for the first timer
	mu     sync.Mutex
	timers []func()
}

func newWorld(box runtime.Sandbox) *world {
	w := &world{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), box: box, limit: 64 << 20, set: make(chan struct{}, 1)}
	w.meter = New(Options{
		Living: func(id string) (runtime.Sandbox, int64) {
			if id != "x" {
				return nil, 0
			}
			return w.box, w.limit
		},
		Now: func() time.Time { return w.now },
		AfterFunc: func(_ time.Duration, f func()) func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			at := len(w.timers)
			w.timers = append(w.timers, f)
			select {
			case w.set <- struct{}{}:
			default:
			}
			return func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				waits := w.timers[at] != nil
				w.timers[at] = nil
				return waits
			}
		},
	})
	return w
}

// tick advances the time by a second.
func (w *world) tick() (ran int) {
	w.now = w.now.Add(time.Second)
	w.mu.Lock()
	due := slices.Clone(w.timers)
	clear(w.timers)
	w.mu.Unlock()
	for _, f := range due {
		if f != nil {
			ran++
			f()
		}
	}
	return ran
}

func (w *world) watch(t *testing.T, user string) (*watcher, error) {
	t.Helper()
	return w.meter.join(user, "x")
}

func figures(cpu time.Duration, memory int64) runtime.Usage {
	return runtime.Usage{CPU: &cpu, Memory: &memory, Pids: new(int64(3)), Sources: map[string]string{"cpu": "cgroup", "memory": "cgroup", "peak_memory": "x"}}
}

func TestSamples(t *testing.T) {
	box := &sandbox{usage: figures(100*time.Millisecond, 1<<20)}
	w := newWorld(box)
	if w.tick() != 0 {
		t.Error("it samples without a watcher")
	}
	first, err := w.watch(t, "ann")
	if err != nil {
		t.Fatal(err)
	}
	w.tick()
	got := <-first.samples
	if got.CPUPercent != nil || *got.CPUTimeMS != 100 || *got.MemoryBytes != 1<<20 || *got.MemoryLimitBytes != 64<<20 || *got.Pids != 3 || got.FileBytes != nil || !got.At.Equal(w.now) ||
		len(got.Sources) != 2 {
		t.Errorf("%+v", got)
	}
	second, err := w.watch(t, "bob") // immediately gets the latest sample
	if err != nil {
		t.Fatal(err)
	}
	if late := <-second.samples; !late.At.Equal(got.At) {
		t.Errorf("%+v", late)
	}
	box.usage = figures(850*time.Millisecond, 2<<20)
	w.tick()
	a, b := <-first.samples, <-second.samples
	if *a.CPUPercent != 75 || *b.CPUPercent != 75 || box.reads != 2 {
		t.Errorf("%v%%, %v%%, %d reads for two watchers", *a.CPUPercent, *b.CPUPercent, box.reads)
	}
	// A sandbox that does not respond has no sample. Its limit is its own if it reports one, and none if it is not enforced.
	box.err = errors.New("gone")
	if w.tick(); len(first.samples) != 0 {
		t.Error("a sample without an answer")
	}
	box.err, box.usage.MemoryTotal = nil, new(int64(77))
	w.tick()
	if c := <-first.samples; *c.MemoryLimitBytes != 77 || *c.CPUPercent != 0 {
		t.Errorf("%+v", c)
	}
	box.usage.MemoryTotal, w.limit = nil, 0
	w.tick()
	if c := <-first.samples; c.MemoryLimitBytes != nil {
		t.Errorf("%+v", c)
	}
	// Another sandbox starts anew, without invented figures.
	w.box = &sandbox{usage: runtime.Usage{}}
	w.tick()
	if c := <-first.samples; c.CPUTimeMS != nil || c.CPUPercent != nil || c.MemoryBytes != nil || c.Pids != nil {
		t.Errorf("%+v", c)
	}
	w.box = nil
	if w.tick() != 1 || len(first.samples) != 0 {
		t.Error("a sample without a sandbox")
	}
	w.meter.leave(first)
	if w.tick() != 1 {
		t.Error("it stops while a watcher is left")
	}
	w.meter.leave(second)
	w.meter.leave(second)
	if w.tick() != 0 || len(w.meter.sources) != 0 || len(w.meter.users) != 0 || w.meter.all != 0 {
		t.Errorf("it goes on without watchers: %+v", w.meter)
	}
}

// A reader that does not read is dropped; others are not.
func TestSlowReader(t *testing.T) {
	w := newWorld(&sandbox{usage: figures(0, 1)})
	slow, err := w.watch(t, "ann")
	if err != nil {
		t.Fatal(err)
	}
	good, err := w.watch(t, "ann")
	if err != nil {
		t.Fatal(err)
	}
	for range behind + 1 {
		w.tick()
		<-good.samples
	}
	n := 0
	for range slow.samples { // closed
		n++
	}
	if n != behind || w.meter.all != 1 || w.meter.users["ann"] != 1 {
		t.Errorf("%d samples, %d watchers", n, w.meter.all)
	}
	w.meter.leave(slow)
	w.tick()
	<-good.samples
	w.meter.leave(good)
}

func TestWatchers(t *testing.T) {
	w := newWorld(&sandbox{})
	var all []*watcher
	join := func(user string, want belljar.Code) {
		t.Helper()
		x, err := w.watch(t, user)
		if belljar.CodeOf(err) != want {
			t.Errorf("%s: %v", user, err)
		}
		if err == nil {
			all = append(all, x)
		} else if most := err.(*belljar.Error).Details["maximum"]; most != mostOfUser && user != "one more" || most != mostWatchers && user == "one more" {
			t.Errorf("%s: of %v", user, most)
		}
	}
	for i := range mostWatchers / mostOfUser {
		for range mostOfUser {
			join(string(rune('a'+i)), "")
		}
		join(string(rune('a'+i)), belljar.CodeRateLimited)
	}
	join("one more", belljar.CodeRateLimited)
	for _, x := range all {
		w.meter.leave(x)
	}
	join("one more", "")
	w.meter.leave(all[len(all)-1])
}

func TestWatchEnds(t *testing.T) {
	w := newWorld(&sandbox{usage: figures(0, 1)})
	over := make(chan struct{})
	next, stop := iter.Pull2(w.meter.Watch(t.Context(), "ann", "x", over))
	defer stop()
	go func() {
		<-w.set // the watcher joins
		w.tick()
	}()
	if s, err, ok := next(); !ok || err != nil || *s.MemoryBytes != 1 {
		t.Errorf("%+v, %v, %t", s, err, ok)
	}
	close(over)
	if _, err, ok := next(); ok || err != nil {
		t.Errorf("after the end: %v, %t", err, ok)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the caller left"))
	for s, err := range w.meter.Watch(ctx, "ann", "x", make(chan struct{})) {
		if err == nil || err.Error() != "the caller left" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if w.meter.all != 0 {
		t.Errorf("%d watchers", w.meter.all)
	}
}
