package image

import (
	"context"
	"sync"

	"github.com/belljar/belljar"
)

// flights are the pulls in progress. A caller that requests the same image joins the pull. A pull without waiting callers is
// cancelled.
type flights struct {
	mu     sync.Mutex
	closed bool
	byName map[string]*flight
	alone  map[int]context.CancelFunc // imports, which are never joined
	last   int
	wait   sync.WaitGroup
}

// enter registers work that close ends and waits for. The caller calls leave when the work is done.
func (fs *flights) enter(ctx context.Context) (own context.Context, leave func(), err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		return nil, nil, closedError()
	}
	own, cancel := context.WithCancel(ctx)
	if fs.alone == nil {
		fs.alone = map[int]context.CancelFunc{}
	}
	fs.last++
	n := fs.last
	fs.alone[n] = cancel
	fs.wait.Add(1)
	return own, func() {
		cancel()
		fs.mu.Lock()
		delete(fs.alone, n)
		fs.mu.Unlock()
		fs.wait.Done()
	}, nil
}

// flight is one pull.
type flight struct {
	cancel  context.CancelFunc
	waiting int // waiting callers; guarded by flights.mu

	mu      sync.Mutex
	reports []belljar.ImageProgress // the last report of each phase and layer
	version []int                   // of each report: when it was made
	now     int
	changed chan struct{} // closed at each report and at the end

	done  chan struct{}
	image belljar.Image
	err   error
}

// join returns the result of work for name, which runs once for all simultaneous callers. Each caller receives all phases;
// slow ones may miss reports. ctx ends the caller's wait. The context of work ends when no caller waits.
func (fs *flights) join(ctx context.Context, name string, progress func(belljar.ImageProgress),
	work func(ctx context.Context, report func(belljar.ImageProgress)) (belljar.Image, error),
) (belljar.Image, error) {
	f, err := fs.board(ctx, name, work)
	if err != nil {
		return belljar.Image{}, err
	}
	defer fs.leave(name, f)
	seen := 0
	for {
		words, last, changed := f.since(seen)
		seen = last
		if progress != nil {
			for _, w := range words {
				progress(w)
			}
		}
		select {
		case <-f.done:
			words, _, _ := f.since(seen)
			if progress != nil {
				for _, w := range words {
					progress(w)
				}
			}
			return f.image, f.err
		case <-changed:
		case <-ctx.Done():
			return belljar.Image{}, ctx.Err()
		}
	}
}

// board finds the flight of a name that a caller still waits for, or starts one.
func (fs *flights) board(ctx context.Context, name string, work func(context.Context, func(belljar.ImageProgress)) (belljar.Image, error)) (*flight, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		return nil, closedError()
	}
	if f := fs.byName[name]; f != nil {
		f.waiting++
		return f, nil
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{cancel: cancel, waiting: 1, changed: make(chan struct{}), done: make(chan struct{})}
	if fs.byName == nil {
		fs.byName = map[string]*flight{}
	}
	fs.byName[name] = f
	fs.wait.Go(func() {
		defer cancel()
		f.image, f.err = work(own, f.report)
		fs.mu.Lock()
		if fs.byName[name] == f {
			delete(fs.byName, name)
		}
		if fs.closed && own.Err() != nil && f.err != nil {
			f.err = closedError()
		}
		fs.mu.Unlock()
		close(f.done)
	})
	return f, nil
}

// leave ends the caller's wait. A flight that is being cancelled cannot be joined.
func (fs *flights) leave(name string, f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.waiting--; f.waiting > 0 {
		return
	}
	f.cancel()
	if fs.byName[name] == f {
		delete(fs.byName, name)
	}
}

// close cancels all flights and waits for their end.
func (fs *flights) close() {
	fs.mu.Lock()
	fs.closed = true
	for _, f := range fs.byName {
		f.cancel()
	}
	for _, cancel := range fs.alone {
		cancel()
	}
	fs.mu.Unlock()
	fs.wait.Wait()
}

// report makes p the last report of its phase and layer.
func (f *flight) report(p belljar.ImageProgress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now++
	for i := range f.reports {
		if f.reports[i].Phase == p.Phase && f.reports[i].Layer == p.Layer {
			f.reports[i], f.version[i] = p, f.now
			f.wake()
			return
		}
	}
	f.reports, f.version = append(f.reports, p), append(f.version, f.now)
	f.wake()
}

func (f *flight) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// since returns the reports that are newer than version seen, in the order in which they were first made.
func (f *flight) since(seen int) (words []belljar.ImageProgress, now int, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, v := range f.version {
		if v > seen {
			words = append(words, f.reports[i])
		}
	}
	return words, f.now, f.changed
}
