//go:build linux

package service_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
)

// screen is a viewer of a terminal.
type screen struct {
	belljar.Attachment
	b    *bench
	seen []byte
	last *belljar.TerminalEvent // nil while it is attached
}

func (b *bench) terminals(user string) belljar.Terminals {
	if user == "" {
		return b.service.As(service.Local()).Terminals()
	}
	return b.service.As(belljar.Caller{ID: user, Role: belljar.RoleUser}).Terminals()
}

// terminal opens a terminal in a session of the bench's caller.
func (b *bench) terminal(sessionID string, command ...string) belljar.Terminal {
	b.t.Helper()
	t, err := b.terminals("").Open(b.context(), sessionID, belljar.TerminalSpec{Command: command})
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

func (b *bench) watch(id string) *screen {
	b.t.Helper()
	a, err := b.terminals("").Attach(b.context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = a.Close() })
	return &screen{Attachment: a, b: b}
}

// next reads one event; false after the last one.
func (s *screen) next() bool {
	s.b.t.Helper()
	e, err := s.Next(s.b.context())
	switch {
	case errors.Is(err, io.EOF) && s.last != nil:
		return false
	case err != nil:
		s.b.t.Fatalf("next: %v, after %q", err, s.tail())
	case e.Kind == belljar.TerminalHistory || e.Kind == belljar.TerminalOutput:
		s.seen = append(s.seen, e.Data...)
	default:
		s.last = &e
	}
	return true
}

func (s *screen) tail() []byte { return s.seen[max(len(s.seen)-2000, 0):] }

// await reads until a text was printed, and discards everything up to its end.
func (s *screen) await(text string) {
	s.b.t.Helper()
	for {
		if at := bytes.Index(s.seen, []byte(text)); at >= 0 {
			s.seen = s.seen[at+len(text):]
			return
		}
		if !s.next() || s.last != nil {
			s.b.t.Fatalf("ended with %+v instead of %q, after %q", s.last, text, s.tail())
		}
	}
}

// typed sends input. A program that ends because of its input may do so before the input is acknowledged; the following events show
// that.
func (s *screen) typed(text string) {
	s.b.t.Helper()
	if err := s.Write(s.b.context(), []byte(text)); err != nil && belljar.CodeOf(err) != belljar.CodeConflict {
		s.b.t.Fatal(err)
	}
}

// prompt sets the shell's prompt to a known one, and waits for it.
func (s *screen) prompt() {
	s.b.t.Helper()
	s.typed("PS1='READ''Y> '\n")
	s.await("READY> ")
}

// end reads to the last event.
func (s *screen) end() belljar.TerminalEvent {
	s.b.t.Helper()
	for s.next() {
	}
	return *s.last
}

func TestTerminalShell(t *testing.T) {
	b := newBench(t)
	x := b.open()
	s := b.watch(b.terminal(x.ID).ID)
	s.prompt()
	s.typed("echo $((6*7)) $TERM; tty\n")
	s.await("42 xterm-256color\r\n/dev/pts/")
	s.typed("stty size\n")
	s.await("24 80")
	s.await("READY> ")
	for cols := 132; cols < 142; cols++ { // a size shortly after another is delayed; input sent after it does not overtake it
		if err := s.Resize(cols, 50); err != nil {
			t.Fatal(err)
		}
		s.typed("echo si''ze is $(stty size)\n")
		s.await("size is ")
		for !bytes.Contains(s.seen, []byte("\r\n")) {
			s.next()
		}
		if want := fmt.Sprintf("50 %d\r\n", cols); !bytes.HasPrefix(s.seen, []byte(want)) {
			t.Errorf("the size is %q, want %q", s.seen, want)
		}
		s.await("READY> ") // before its prompt bash reads the size and sets it again: a change in between is lost
	}
	// The program reports when it is in the foreground: the shell would get a key before that. It has no child that could be
	// stopped during its start, which would delay it, and sleeps briefly: a pause would miss a key that arrives just before it.
	s.typed(`python3 -c 'import os, signal, time; signal.signal(signal.SIGCONT, lambda *a: os.write(1, b"ba" b"ck\n")); ` +
		`print("beg" "un", flush=True); [time.sleep(0.02) for i in iter(int, 1)]'` + "\n")
	s.await("begun")
	s.typed("\x1a")
	s.await("Stopped")
	s.await("READY> ")
	s.typed("jobs; fg\n")
	s.await("back")
	s.typed("\x03")
	s.await("^C")
	s.await("READY> ")
	s.typed("echo status $?\n")
	s.await("status 130")
	s.await("READY> ")
	s.typed("echo o''n; cat\n")
	s.await("on\r\n")
	s.typed("gr\xc3")
	s.typed("\xbc\xc3\x9fe\n")
	s.await("grüße\r\ngrüße\r\n")
	s.typed("\x04")
	s.await("READY> ")
	s.typed("exit 7\n")
	if e := s.end(); e.Kind != belljar.TerminalExit || e.ExitCode != 7 {
		t.Errorf("%+v", e)
	}
	if err := s.Write(b.context(), []byte("x")); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("typing after the end: %v", err)
	}
}

func TestTerminalPython(t *testing.T) {
	b := newBench(t)
	s := b.watch(b.terminal(b.open().ID, "python3", "-q").ID)
	s.await(">>> ")
	s.typed("print('é' * 3, 6 * 7)\n")
	s.await("ééé 42")
	s.typed("import os; os.kill(os.getpid(), 15)\n")
	if e := s.end(); e.Kind != belljar.TerminalExit || e.ExitCode != 143 {
		t.Errorf("%+v", e)
	}
}

// A user who reattaches gets the output printed meanwhile, and the unchanged program. A user who attaches after its end gets its exit.
func TestTerminalComesBack(t *testing.T) {
	b := newBench(t)
	x := b.open()
	made := b.terminal(x.ID, "sh", "-c", "echo ready; read a; echo got $a; read b; exit 3")
	s := b.watch(made.ID)
	s.await("ready")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(b.context()); !errors.Is(err, io.EOF) {
		t.Errorf("next after leaving: %v", err)
	}
	if got, err := b.terminals("").Get(b.context(), made.ID); err != nil || got.Attached != 0 || got.DetachedAt.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	s = b.watch(made.ID)
	if got := s.Terminal(); got.Attached != 1 || !got.DetachedAt.IsZero() || got.SessionID != x.ID {
		t.Errorf("%+v", got)
	}
	s.await("ready\r\n")
	s.typed("one\n")
	s.await("got one")
	s.typed("\n")
	s.end()
	s = b.watch(made.ID)
	if e := s.end(); e.Kind != belljar.TerminalExit || e.ExitCode != 3 || !strings.Contains(string(s.seen), "got one") {
		t.Errorf("%+v, %q", e, s.seen)
	}
	if got := s.Terminal(); got.ExitCode == nil || *got.ExitCode != 3 {
		t.Errorf("%+v", got)
	}
	if err := b.terminals("").Close(b.context(), made.ID); err != nil {
		t.Error(err)
	}
	if _, err := b.terminals("").Get(b.context(), made.ID); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("after its end and close: %v", err)
	}
}

func TestTerminalReplaced(t *testing.T) {
	b := newBench(t)
	x := b.open()
	made := b.terminal(x.ID, "cat")
	first := b.watch(made.ID)
	second := b.watch(made.ID)
	if e := first.end(); e.Kind != belljar.TerminalReplaced {
		t.Errorf("%+v", e)
	}
	if err := first.Write(b.context(), []byte("x\n")); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("%v", err)
	}
	if err := first.Resize(10, 10); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("%v", err)
	}
	second.typed("here\n")
	second.await("here\r\nhere\r\n")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if got := second.Terminal(); got.Attached != 1 {
		t.Errorf("%+v", got)
	}

	shared, err := b.terminals("").Open(b.context(), x.ID, belljar.TerminalSpec{Command: []string{"cat"}, Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	first, second = b.watch(shared.ID), b.watch(shared.ID)
	first.typed("from one\n")
	second.await("from one\r\nfrom one\r\n")
	second.typed("from two\n")
	first.await("from two\r\nfrom two\r\n")
}

// Other users get no information about terminals, and no caller gets any about closed ones.
func TestTerminalOwners(t *testing.T) {
	b := newBench(t)
	x, err := b.sessions("ann").Create(b.context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	made, err := b.terminals("ann").Open(b.context(), x.ID, belljar.TerminalSpec{Command: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string]belljar.Code{"ann": "", "bob": belljar.CodeNotFound, "": ""} {
		of := b.terminals(who)
		_, err1 := of.Get(b.context(), made.ID)
		_, err2 := of.List(b.context(), x.ID)
		a, err3 := of.Attach(b.context(), made.ID)
		for i, err := range []error{err1, err2, err3} {
			if belljar.CodeOf(err) != want {
				t.Errorf("%q, %d: %v", who, i, err)
			}
		}
		if err3 == nil {
			_ = a.Close()
		}
	}
	if err := b.terminals("bob").Close(b.context(), made.ID); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Error(err)
	}
	if _, err := b.terminals("bob").Open(b.context(), x.ID, belljar.TerminalSpec{}); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Error(err)
	}
	s := b.watch(made.ID)
	if err := b.sessions("ann").Delete(b.context(), x.ID); err != nil {
		t.Fatal(err)
	}
	if e := s.end(); e.Kind != belljar.TerminalClosed || e.Reason != "session" {
		t.Errorf("%+v", e)
	}
	if _, err := b.terminals("ann").Open(b.context(), x.ID, belljar.TerminalSpec{}); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Error(err)
	}
	if list, err := b.terminals("ann").List(b.context(), x.ID); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	if _, err := b.terminals("ann").Attach(b.context(), made.ID); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Error(err)
	}
	if _, err := b.terminals("ann").Open(b.context(), "nowhere", belljar.TerminalSpec{}); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Error(err)
	}
}

func TestTerminalCannotStart(t *testing.T) {
	b := newBench(t)
	x := b.open()
	for name, command := range map[string][]string{"unknown": {"nosuchprogram"}, "folder": {"/"}, "NUL": {"a\x00"}} {
		_, err := b.terminals("").Open(b.context(), x.ID, belljar.TerminalSpec{Command: command})
		if belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := b.terminals("").List(b.context(), x.ID); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}

func TestTerminalCaps(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Terminals.PerSession, o.Terminals.PerUser = 2, 3 })
	x, y := b.open(), b.open()
	b.terminal(x.ID, "cat")
	b.terminal(x.ID, "cat")
	if _, err := b.terminals("").Open(b.context(), x.ID, belljar.TerminalSpec{}); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
		t.Error(err)
	}
	third := b.terminal(y.ID, "cat")
	if _, err := b.terminals("").Open(b.context(), y.ID, belljar.TerminalSpec{}); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
		t.Error(err)
	}
	if err := b.terminals("").Close(b.context(), third.ID); err != nil {
		t.Fatal(err)
	}
	b.terminal(y.ID, "cat")
}

// Ended programs do not accumulate.
func TestTerminalsThatEnded(t *testing.T) {
	b := newBench(t)
	x := b.open()
	for range 20 {
		s := b.watch(b.terminal(x.ID, "true").ID)
		s.end()
	}
	b.eventually("at most eight are kept", func() bool {
		list, err := b.terminals("").List(b.context(), x.ID)
		return err == nil && len(list) <= 8 && len(list) > 0
	})
}

// eventually polls a condition that has no event.
func (b *bench) eventually(what string, f func() bool) {
	b.t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatal("never: " + what)
		}
	}
}

// The timeouts of a terminal: detached, idle, lifetime.
func TestTerminalClocks(t *testing.T) {
	for name, c := range map[string]struct {
		watched bool
		typing  bool
		every   time.Duration
		times   int
		reason  string
	}{
		"unattended": {every: 899 * time.Second, times: 2, reason: ""},
		"idle":       {watched: true, every: time.Hour, times: 1, reason: "idle"},
		"old":        {watched: true, typing: true, every: 30 * time.Minute, times: 48, reason: "lifetime"},
		"in use":     {watched: true, typing: true, every: 30 * time.Minute, times: 40},
	} {
		t.Run(name, func(t *testing.T) {
			clock, diary := newHourglass(), &diary{}
			b := newBench(t, func(o *service.Options) {
				o.Clock, o.Events = clock, diary
				o.SessionTTL, o.MaxSessionTTL = 100*time.Hour, 100*time.Hour
				o.SessionLifetime, o.MaxSessionLifetime = 100*time.Hour, 100*time.Hour
			})
			made := b.terminal(b.open().ID, "cat")
			var s *screen
			if c.watched {
				s = b.watch(made.ID)
			}
			for i := range c.times {
				clock.pass(c.every)
				if c.typing && (c.reason == "" || i < c.times-1) {
					s.typed("x\n")
					s.await("x\r\nx\r\n")
				}
			}
			if !c.watched {
				b.eventually("its end", func() bool {
					_, err := b.terminals("").Get(b.context(), made.ID)
					return belljar.CodeOf(err) == belljar.CodeNotFound
				})
				b.eventually("its event", func() bool { return len(diary.named(event.TerminalEnded)) == 1 })
				if got := diary.named(event.TerminalEnded)[0].Reason; got != "closed detached" {
					t.Error(got)
				}
				return
			}
			if c.reason == "" {
				s.typed("still here\n")
				s.await("still here")
				return
			}
			if e := s.end(); e.Kind != belljar.TerminalClosed || e.Reason != c.reason {
				t.Errorf("%+v", e)
			}
		})
	}
}
