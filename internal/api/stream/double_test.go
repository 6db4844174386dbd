package stream

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// patience bounds every wait of a test.
const patience = time.Minute

// engine is a belljar.Engine whose runs print what a test appends.
type engine struct {
	mu      sync.Mutex
	runs    map[string]*run
	watched chan struct{} // has a token when the usage of a run is watched
}

// run is one run of an engine, and its log.
type run struct {
	mu      sync.Mutex
	state   belljar.Run
	owner   string
	first   uint64 // seq of the first frame retained
	frames  []belljar.Frame
	sealed  bool
	fail    error // ends the log for readers who have read all of it
	changed chan struct{}
	stdin   *stdin
	refuse  error // the error of Stdin
}

func (e *engine) As(c belljar.Caller) belljar.Service { return service{engine: e, caller: c} }

type service struct {
	belljar.Service
	engine *engine
	caller belljar.Caller
}

func (s service) Runs() belljar.Runs { return runs{service: s} }

type runs struct {
	belljar.Runs
	service
}

func (r runs) find(id string) (*run, error) {
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	found, ok := r.engine.runs[id]
	if !ok || !r.caller.Sees(found.owner) {
		return nil, &belljar.Error{Code: belljar.CodeNotFound, Message: fmt.Sprintf("run %q does not exist", id)}
	}
	return found, nil
}

func (r runs) Get(_ context.Context, id string) (belljar.Run, error) {
	found, err := r.find(id)
	if err != nil {
		return belljar.Run{}, err
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	state := found.state
	state.LastSeq = found.last()
	return state, nil
}

func (r runs) Stdin(_ context.Context, id string) (belljar.Stdin, error) {
	found, err := r.find(id)
	if err != nil {
		return nil, err
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	if found.refuse != nil {
		return nil, found.refuse
	}
	found.stdin.mu.Lock()
	found.stdin.holds++
	found.stdin.mu.Unlock()
	return &hold{stdin: found.stdin, gone: make(chan struct{})}, nil
}

func (r runs) Frames(ctx context.Context, id string, from uint64) iter.Seq2[belljar.Frame, error] {
	found, err := r.find(id)
	return func(yield func(belljar.Frame, error) bool) {
		if err != nil {
			yield(belljar.Frame{}, err)
			return
		}
		found.read(ctx, from, yield)
	}
}

func (r *run) last() uint64 { return r.first + uint64(len(r.frames)) - 1 }

func (r *run) read(ctx context.Context, from uint64, yield func(belljar.Frame, error) bool) {
	r.mu.Lock()
	if from == belljar.Tail {
		from = r.last() + 1
	}
	from = max(from, r.first)
	r.mu.Unlock()
	for {
		r.mu.Lock()
		var f belljar.Frame
		has := from <= r.last()
		if has {
			f = r.frames[from-r.first]
		}
		changed, sealed, fail := r.changed, r.sealed, r.fail
		r.mu.Unlock()
		switch {
		case has:
			if !yield(f, nil) {
				return
			}
			from++
		case fail != nil:
			yield(belljar.Frame{}, fail)
			return
		case sealed:
			if r.last()+1 < from {
				yield(r.frames[len(r.frames)-1], nil)
			}
			return
		default:
			select {
			case <-changed:
			case <-ctx.Done():
				yield(belljar.Frame{}, ctx.Err())
				return
			}
		}
	}
}

func (r *run) change(f func()) {
	r.mu.Lock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
}

// say appends frames.
func (r *run) say(frames ...belljar.Frame) {
	r.change(func() {
		for _, f := range frames {
			f.Seq = r.last() + 1
			r.frames = append(r.frames, f)
		}
	})
}

// print appends output.
func (r *run) print(text string) {
	r.say(belljar.Frame{Type: belljar.FrameStdout, Output: []byte(text)})
}

// end ends the run.
func (r *run) end() {
	r.say(belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventEnd, Data: map[string]any{"exit_code": 0}})
	r.change(func() { r.sealed, r.state.Phase = true, belljar.PhaseCompleted })
	r.mu.Lock()
	in := r.stdin
	r.mu.Unlock()
	if in != nil {
		in.close("run_ended")
	}
}

// stdin is the standard input of a run. The test reads it as the program.
type stdin struct {
	frames chan []byte
	closed chan struct{}
	mu     sync.Mutex
	reason string
	holds  int
}

func newStdin() *stdin { return &stdin{frames: make(chan []byte), closed: make(chan struct{})} }

func (s *stdin) close(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason == "" {
		s.reason = reason
		close(s.closed)
	}
}

// read reads one frame, as the program does.
func (s *stdin) read(t testing.TB) []byte {
	t.Helper()
	select {
	case b := <-s.frames:
		return b
	case <-time.After(patience):
		t.Fatal("no input for the program")
		return nil
	}
}

type hold struct {
	*stdin
	gone chan struct{}
	once sync.Once
}

func (h *hold) Write(b []byte) (int, error) {
	select {
	case h.frames <- append([]byte(nil), b...):
		return len(b), nil
	case <-h.closed:
	case <-h.gone:
	}
	return 0, &belljar.Error{Code: belljar.CodeConflict, Message: "closed"}
}

func (h *hold) End() error { h.close("client"); return nil }

func (h *hold) Closed() <-chan struct{} { return h.closed }

func (h *hold) Refusal() error {
	e := &belljar.Error{Code: belljar.CodeConflict, Message: "closed"}
	if h.Reason() == "stdin_bps" {
		e.Message, e.Hint, e.Details = "too fast", "wait", map[string]any{"maximum": 5}
	}
	return e
}

func (h *hold) Reason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reason
}

func (h *hold) Close() error {
	h.once.Do(func() {
		close(h.gone)
		h.mu.Lock()
		h.holds--
		h.mu.Unlock()
	})
	return nil
}

// revocable records the users of requests, whose credentials can then be revoked.
type revocable struct{ uses *api.Uses }

func (a revocable) Authenticate(r *http.Request) (belljar.Caller, error) {
	caller, err := headers{}.Authenticate(r)
	a.uses.Note(r.Context(), a.uses.Revoked(), caller.ID)
	return caller, err
}

// headers authenticates by X-User, and X-Admin.
type headers struct{}

func (headers) Authenticate(r *http.Request) (belljar.Caller, error) {
	user := r.Header.Get("X-User")
	if user == "" {
		return belljar.Caller{}, &belljar.Error{Code: belljar.CodeUnauthorized, Message: "who are you"}
	}
	role := belljar.RoleUser
	if r.Header.Get("X-Admin") != "" {
		role = belljar.RoleAdmin
	}
	return belljar.Caller{ID: user, Role: role}, nil
}

// diary is an event.Sink on whose events tests wait.
type diary struct {
	mu      sync.Mutex
	events  []event.Event
	changed chan struct{}
}

func (d *diary) Record(e event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
	close(d.changed)
	d.changed = make(chan struct{})
}

// count returns how many events match.
func (d *diary) count(match func(event.Event) bool) (n int, changed chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if match(e) {
			n++
		}
	}
	return n, d.changed
}

// await waits for n events of a name.
func (d *diary) await(t testing.TB, name string, n int) {
	t.Helper()
	late := time.After(patience)
	for {
		got, changed := d.count(func(e event.Event) bool { return e.Name == name })
		if got >= n {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%d %s events, want %d", got, name, n)
		}
	}
}

// reasons lists the reasons of the events of a name.
func (d *diary) reasons(name string) (reasons []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Name == name {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}
