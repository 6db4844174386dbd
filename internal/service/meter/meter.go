// Package meter samples the usage of sandboxes while clients watch them.
package meter

import (
	"context"
	"iter"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

const (
	// every is the interval between samples of a sandbox.
	every = time.Second
	// readTime bounds the reading of one sample.
	readTime = 2 * time.Second
	// behind is how many unread samples a watcher may have. A watcher with more is dropped.
	behind = 8
	// mostWatchers bounds all watchers, mostOfUser those of one user.
	mostWatchers, mostOfUser = 512, 32
)

// Options configures a meter. All fields are required.
type Options struct {
	// Living returns the sandbox of a run or session, nil if it has none now, and the limit in bytes on its memory, 0 for none.
	Living    func(id string) (sandbox runtime.Sandbox, memoryLimit int64)
	Now       func() time.Time
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
}

// Meter samples sandboxes. Make one with [New].
type Meter struct {
	opts Options

	mu      sync.Mutex
	sources map[string]*source // by id of the run or session
	users   map[string]int
	all     int
}

// source is a watched sandbox. One sampler serves all its watchers.
type source struct {
	id       string
	watchers map[*watcher]bool
	stop     func() bool // the timer of the next sample
	latest   *belljar.UsageSample

	sandbox runtime.Sandbox // of the previous sample; only the sampler reads this and the next two
	cpu     *time.Duration
	at      time.Time
}

type watcher struct {
	user    string
	source  *source
	samples chan belljar.UsageSample // closed if the watcher is dropped
}

// New returns a meter. It samples nothing until a client watches.
func New(o Options) *Meter {
	return &Meter{opts: o, sources: map[string]*source{}, users: map[string]int{}}
}

// Watch yields samples of the sandbox of a run or session, for a user, until over is closed.
func (m *Meter) Watch(ctx context.Context, user, id string, over <-chan struct{}) iter.Seq2[belljar.UsageSample, error] {
	return func(yield func(belljar.UsageSample, error) bool) {
		w, err := m.join(user, id)
		if err != nil {
			yield(belljar.UsageSample{}, err)
			return
		}
		defer m.leave(w)
		for {
			select {
			case <-over:
				return
			case <-ctx.Done():
				yield(belljar.UsageSample{}, context.Cause(ctx))
				return
			case sample, ok := <-w.samples:
				if !ok {
					yield(belljar.UsageSample{}, &belljar.Error{
						Code: belljar.CodeRuntimeUnavailable, Message: "the reader of the usage is too slow", Hint: "watch again",
					})
					return
				}
				if !yield(sample, nil) {
					return
				}
			}
		}
	}
}

// join adds a watcher. The first watcher of a source starts its sampler. A later one immediately gets the latest sample.
func (m *Meter) join(user, id string) (*watcher, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := &belljar.Error{
		Code: belljar.CodeRateLimited, Message: "too many clients watch the usage", Hint: "close some of them",
		Details: map[string]any{"maximum": mostOfUser, "scope": "usage"},
	}
	switch {
	case m.users[user] >= mostOfUser:
		return nil, full
	case m.all >= mostWatchers: // most belong to other users
		full.Hint, full.Details["maximum"] = "try again in a moment", mostWatchers
		return nil, full
	}
	s := m.sources[id]
	if s == nil {
		s = &source{id: id, watchers: map[*watcher]bool{}}
		m.sources[id] = s
		s.stop = m.opts.AfterFunc(0, func() { m.sample(s) })
	}
	w := &watcher{user: user, source: s, samples: make(chan belljar.UsageSample, behind)}
	if s.latest != nil {
		w.samples <- *s.latest
	}
	s.watchers[w] = true
	m.users[user]++
	m.all++
	return w, nil
}

// leave removes a watcher. The last one of a source stops its sampler. The watcher may already have been dropped.
func (m *Meter) leave(w *watcher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(w)
}

func (m *Meter) remove(w *watcher) {
	s := w.source
	if !s.watchers[w] {
		return
	}
	delete(s.watchers, w)
	m.all--
	if m.users[w.user]--; m.users[w.user] == 0 {
		delete(m.users, w.user)
	}
	if len(s.watchers) == 0 {
		s.stop()
		delete(m.sources, s.id)
	}
}

// sample passes a sample to the watchers of a source, and sets the timer of the next one.
func (m *Meter) sample(s *source) {
	sample := m.read(s)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sources[s.id] != s {
		return // all watchers have left
	}
	if sample != nil {
		s.latest = sample
		for w := range maps.Clone(s.watchers) {
			select {
			case w.samples <- *sample:
			default:
				m.remove(w)
				close(w.samples)
			}
		}
	}
	if m.sources[s.id] == s {
		s.stop = m.opts.AfterFunc(every, func() { m.sample(s) })
	}
}

// read takes a sample, nil if there is no sandbox or it does not respond.
func (m *Meter) read(s *source) *belljar.UsageSample {
	sandbox, limit := m.opts.Living(s.id)
	if sandbox == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	usage, err := sandbox.Usage(ctx)
	if err != nil {
		return nil // it is ending or busy
	}
	now := m.opts.Now()
	sample := &belljar.UsageSample{
		At: now.UTC(), MemoryBytes: usage.Memory, FileBytes: usage.Files, MemoryLimitBytes: usage.MemoryTotal, Pids: usage.Pids,
		Sources: map[string]string{},
	}
	if limit > 0 && usage.MemoryTotal == nil {
		sample.MemoryLimitBytes = &limit
	}
	if usage.CPU != nil {
		sample.CPUTimeMS = new(float64(*usage.CPU) / float64(time.Millisecond))
		if passed := now.Sub(s.at); s.cpu != nil && s.sandbox == sandbox && passed > 0 && *usage.CPU >= *s.cpu {
			sample.CPUPercent = new(math.Round(1000*float64(*usage.CPU-*s.cpu)/float64(passed)) / 10)
		}
	}
	for _, name := range []string{"cpu", "memory", "files", "pids"} {
		if from := usage.Sources[name]; from != "" {
			sample.Sources[name] = from
		}
	}
	s.sandbox, s.cpu, s.at = sandbox, usage.CPU, now
	return sample
}
