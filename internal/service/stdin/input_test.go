package stdin

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// program is the command that reads an input, when the test permits it.
type program struct {
	gate chan struct{} // nil: it always reads

	mu     sync.Mutex
	got    bytes.Buffer
	closed int
	dead   error
}

func (p *program) Write(b []byte) (int, error) {
	if p.gate != nil {
		<-p.gate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead != nil {
		return 0, p.dead
	}
	return p.got.Write(b)
}

func (p *program) CloseStdin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed++
	return nil
}

func (p *program) state() (got string, closed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got.String(), p.closed
}

// tried is the result of a write.
type tried struct {
	n   int
	err error
}

// write writes in the background.
func write(h belljar.Stdin, text string) <-chan tried {
	c := make(chan tried, 1)
	go func() {
		n, err := h.Write([]byte(text))
		c <- tried{n, err}
	}()
	return c
}

func wantOpen(t *testing.T, h belljar.Stdin) {
	t.Helper()
	select {
	case <-h.Closed():
		t.Errorf("closed: %s", h.Reason())
	default:
		if r := h.Reason(); r != "" {
			t.Errorf("open, with the reason %q", r)
		}
	}
}

func wantClosed(t *testing.T, h belljar.Stdin, reason string, code belljar.Code) {
	t.Helper()
	synctest.Wait()
	select {
	case <-h.Closed():
	default:
		t.Fatalf("not closed, want %s", reason)
	}
	n, err := h.Write([]byte("x"))
	if h.Reason() != reason || n != 0 || belljar.CodeOf(err) != code {
		t.Errorf("closed for %q, a write gets %d, %v; want %s, %s", h.Reason(), n, err, reason, code)
	}
	var e *belljar.Error
	if errors.As(err, &e); (code == belljar.CodeConflict) != (e.Hint == "") {
		t.Errorf("closed for %s, a write gets the hint %q", reason, e.Hint)
	}
}

func TestInputFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, p := New(Limits{}), &program{}
		first, second := in.Open(), in.Open()
		early := write(first, "one ") // before the command starts
		synctest.Wait()
		in.Attach(p)
		if got := <-early; got.n != 4 || got.err != nil {
			t.Errorf("%+v", got)
		}
		for _, h := range []belljar.Stdin{second, first} {
			if n, err := h.Write([]byte("more ")); n != 5 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		if n, err := first.Write(nil); n != 0 || err != nil {
			t.Errorf("nothing: %d, %v", n, err)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		if _, err := first.Write([]byte("x")); belljar.CodeOf(err) != belljar.CodeConflict {
			t.Errorf("a hold that was given up: %v", err)
		}
		wantOpen(t, second)
		if err := errors.Join(second.End(), second.End(), second.Close(), second.Close()); err != nil {
			t.Error(err)
		}
		third := in.Open()
		wantClosed(t, third, EndedByClient, belljar.CodeConflict)
		if got, closed := p.state(); got != "one more more " || closed != 1 {
			t.Errorf("the program got %q, closed %d times", got, closed)
		}
	})
}

func TestInputLimits(t *testing.T) {
	for name, test := range map[string]struct {
		limits Limits
		frames []string
		reason string
		code   belljar.Code
		got    string
	}{
		"frame": {Limits{MaxFrameBytes: 4}, []string{"1234", "12345"}, limitFrameBytes, belljar.CodeTooLarge, "1234"},
		"total": {Limits{MaxBytes: 6}, []string{"123", "456", "7"}, limitBytes, belljar.CodeQuotaExceeded, "123456"},
		"rate":  {Limits{BytesPerSec: 2}, []string{"12", "34", "56"}, limitRate, belljar.CodeQuotaExceeded, "1234"},
		"default frame": {Limits{}, []string{strings.Repeat("x", 64<<10+1)},
			limitFrameBytes, belljar.CodeTooLarge, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, p := New(test.limits), &program{}
				in.Attach(p)
				h := in.Open()
				last := len(test.frames) - 1
				for i, f := range test.frames {
					n, err := h.Write([]byte(f))
					if i < last && (n != len(f) || err != nil) {
						t.Errorf("frame %d: %d, %v", i, n, err)
					}
					if i == last && (n != 0 || belljar.CodeOf(err) != test.code) {
						t.Errorf("the frame too much: %d, %v", n, err)
					}
				}
				wantClosed(t, h, test.reason, test.code)
				if got, closed := p.state(); got != test.got || closed != 1 {
					t.Errorf("the program got %q, closed %d times", got, closed)
				}
			})
		})
	}
}

// A burst is delayed to the rate. A sender that stays below it for a while may burst again.
func TestInputIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, p := New(Limits{BytesPerSec: 10, IdleTimeoutSec: 1000}), &program{}
		in.Attach(p)
		h := in.Open()
		for round := range 3 {
			begin := time.Now()
			for range 4 {
				if _, err := h.Write([]byte("1234")); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
			}
			if took := time.Since(begin); took < 500*time.Millisecond || took > 700*time.Millisecond {
				t.Errorf("round %d: 16 bytes at 10 a second took %v", round, took)
			}
			time.Sleep(2 * time.Second)
		}
		wantOpen(t, h)
		in.End(EndedWithRun)
	})
}

func TestInputIdles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, p := New(Limits{}), &program{gate: make(chan struct{})}
		h := in.Open()
		time.Sleep(time.Minute) // in the queue
		wantOpen(t, h)
		in.Attach(p)
		time.Sleep(29 * time.Second)
		blocked := write(h, "x")
		time.Sleep(time.Minute) // only the program is idle: it does not read
		wantOpen(t, h)
		p.gate <- struct{}{}
		if got := <-blocked; got.err != nil {
			t.Error(got.err)
		}
		time.Sleep(29 * time.Second)
		wantOpen(t, h)
		time.Sleep(2 * time.Second)
		wantClosed(t, h, limitIdle, belljar.CodeQuotaExceeded)
		if _, closed := p.state(); closed != 1 {
			t.Error("the program's input is open")
		}
	})
}

// A program that does not read blocks only its writers: a handle can be closed, and the input ended.
func TestInputBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, p := New(Limits{}), &program{gate: make(chan struct{})}
		in.Attach(p)
		first, second, third := in.Open(), in.Open(), in.Open()
		taken := write(first, "first ")
		synctest.Wait()
		waiting, leaving := write(second, "second "), write(third, "third ")
		synctest.Wait()
		select {
		case <-taken:
			t.Error("a write returned without a reader")
		case <-waiting:
			t.Error("a write returned without a reader")
		default:
		}
		third.Close()
		if got := <-leaving; belljar.CodeOf(got.err) != belljar.CodeConflict {
			t.Errorf("%+v", got)
		}
		close(p.gate)
		if got := <-taken; got.err != nil {
			t.Error(got.err)
		}
		if got := <-waiting; got.err != nil {
			t.Error(got.err)
		}
		in.End(EndedWithRun)
		wantClosed(t, first, EndedWithRun, belljar.CodeConflict)
		if got, _ := p.state(); got != "first second " {
			t.Errorf("the program got %q", got)
		}
	})
}

// A writer that waits when the run ends gets an error.
func TestInputOfARunThatEnds(t *testing.T) {
	for name, end := range map[string]func(*Input, *program){
		"dead program": func(in *Input, p *program) { p.dead = errors.New("gone"); in.Attach(p) },
		"never began":  func(in *Input, _ *program) { in.Abandon(nil) },
		"detached":     func(in *Input, _ *program) { in.End(EndedWithRun) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, p := New(Limits{}), &program{}
				h := in.Open()
				waiting := write(h, "x")
				synctest.Wait()
				end(in, p)
				if got := <-waiting; belljar.CodeOf(got.err) != belljar.CodeConflict {
					t.Errorf("%+v", got)
				}
				wantClosed(t, h, EndedWithRun, belljar.CodeConflict)
				in.Attach(&program{}) // too late, without effect
				in.Abandon(nil)
			})
		})
	}
}

// A run that is stopped while its command runs still accepts input until the command has ended.
func TestInputOfAStoppedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, p := New(Limits{}), &program{}
		in.Attach(p)
		in.Abandon(nil)
		h := in.Open()
		if _, err := h.Write([]byte("bye")); err != nil {
			t.Error(err)
		}
		if err := h.End(); err != nil {
			t.Error(err)
		}
		wantClosed(t, h, EndedByClient, belljar.CodeConflict)
	})
}

// The input of a run that waits for the next process does not end like that of a run that has ended: its caller has more to send.
func TestInputOfARunThatWaits(t *testing.T) {
	for _, cause := range []error{fault.ErrShutdown, fault.ErrDetached} {
		synctest.Test(t, func(t *testing.T) {
			in := New(Limits{})
			h := in.Open()
			in.Abandon(cause)
			wantClosed(t, h, Detached, belljar.CodeOf(fault.ShuttingDown()))
			p := &program{}
			in.Attach(p) // its command had begun nevertheless
			synctest.Wait()
			if _, closed := p.state(); closed != 0 {
				t.Error("the command reads the end of its input")
			}
		})
	}
}

func TestEndBeforeTheCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, p := New(Limits{}), &program{}
		h := in.Open()
		if err := h.End(); err != nil {
			t.Error(err)
		}
		in.Attach(p)
		wantClosed(t, h, EndedByClient, belljar.CodeConflict)
		if _, closed := p.state(); closed != 1 {
			t.Error("the program waits for input for ever")
		}
	})
}

func TestResolveStdin(t *testing.T) {
	defaults, most := DefaultLimits(), MaxLimits()
	got, err := Resolve(Limits{MaxBytes: 5, IdleTimeoutSec: 0.5}, defaults, most)
	want := Limits{MaxBytes: 5, MaxFrameBytes: 64 << 10, BytesPerSec: 1 << 20, IdleTimeoutSec: 0.5}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for field, ask := range map[string]Limits{
		limitBytes: {MaxBytes: -1}, limitFrameBytes: {MaxFrameBytes: -1}, limitRate: {BytesPerSec: -1}, limitIdle: {IdleTimeoutSec: -0.1},
	} {
		wantField(t, ask, field, belljar.CodeInvalidRequest)
	}
	for field, ask := range map[string]Limits{
		limitBytes: {MaxBytes: most.MaxBytes + 1}, limitFrameBytes: {MaxFrameBytes: 1 << 20}, limitRate: {BytesPerSec: 1 << 40},
		limitIdle: {IdleTimeoutSec: 1e6},
	} {
		wantField(t, ask, field, belljar.CodePolicyDenied)
	}
}

func wantField(t *testing.T, ask Limits, field string, code belljar.Code) {
	t.Helper()
	var e *belljar.Error
	if _, err := Resolve(ask, DefaultLimits(), MaxLimits()); !errors.As(err, &e) || e.Code != code || e.Details["field"] != field {
		t.Errorf("%+v: %v", ask, err)
	}
}
