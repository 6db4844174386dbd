package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/notice"
)

// fakeTerminals is a fake terminal with scripted attachments.
type fakeTerminals struct {
	belljar.Terminals

	mu       sync.Mutex
	visits   [][]any // events of each attachment, channels to wait for, or an error that breaks it
	typed    bytes.Buffer
	attached int
	refuse   func() error // if set, the result of a write
}

func (d *fakeTerminals) Attach(context.Context, string) (belljar.Attachment, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attached == len(d.visits) {
		return nil, errors.New("unexpected attachment")
	}
	d.attached++
	if err, ok := d.visits[d.attached-1][0].(error); ok && len(d.visits[d.attached-1]) == 1 {
		return nil, err
	}
	return &fakeAttachment{fakeTerminals: d, show: d.visits[d.attached-1]}, nil
}

// fakeAttachment is one attachment.
type fakeAttachment struct {
	fakeTerminals *fakeTerminals
	show          []any
}

func (c *fakeAttachment) Terminal() belljar.Terminal { return belljar.Terminal{} }
func (c *fakeAttachment) Resize(int, int) error      { return nil }
func (c *fakeAttachment) Close() error               { return nil }

func (c *fakeAttachment) Write(_ context.Context, b []byte) error {
	if c.fakeTerminals.refuse != nil {
		return c.fakeTerminals.refuse()
	}
	c.fakeTerminals.mu.Lock()
	defer c.fakeTerminals.mu.Unlock()
	c.fakeTerminals.typed.Write(b)
	return nil
}

func (c *fakeAttachment) Next(ctx context.Context) (belljar.TerminalEvent, error) {
	if len(c.show) == 0 {
		<-ctx.Done()
		return belljar.TerminalEvent{}, context.Cause(ctx)
	}
	next := c.show[0]
	c.show = c.show[1:]
	if wait, ok := next.(<-chan struct{}); ok {
		select {
		case <-wait:
			return c.Next(ctx)
		case <-ctx.Done():
			return belljar.TerminalEvent{}, context.Cause(ctx)
		}
	}
	if err, ok := next.(error); ok {
		return belljar.TerminalEvent{}, err
	}
	return next.(belljar.TerminalEvent), nil
}

func say(kind belljar.TerminalEventKind, text string) belljar.TerminalEvent {
	return belljar.TerminalEvent{Kind: kind, Data: []byte(text)}
}

func exit(code int) belljar.TerminalEvent {
	return belljar.TerminalEvent{Kind: belljar.TerminalExit, ExitCode: code}
}

func runVisit(t *testing.T, d *fakeTerminals, stdin io.Reader) (status int, stdout, stderr string, err error) {
	t.Helper()
	var out, notes bytes.Buffer
	v := &Attachment{Stdin: stdin, Stdout: &out, Notice: &notice.Writer{Stderr: &notes}, Terminals: d, ID: "t", Keys: Keys{typed: []byte("\x10\x11")}}
	status, err = v.follow(t.Context())
	return status, out.String(), notes.String(), err
}

func TestVisitShowsTheTerminal(t *testing.T) {
	d := &fakeTerminals{visits: [][]any{{say(belljar.TerminalHistory, "before "), say(belljar.TerminalOutput, "now"), exit(3)}}}
	status, out, _, err := runVisit(t, d, strings.NewReader(""))
	if status != 3 || err != nil || out != "before now" {
		t.Errorf("%d, %v, %q", status, err, out)
	}
}

func TestVisitComesBack(t *testing.T) {
	away := &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "connection refused"}
	d := &fakeTerminals{visits: [][]any{
		{say(belljar.TerminalOutput, "one"), away}, {away}, {say(belljar.TerminalHistory, "one two"), exit(0)},
	}}
	r, w := io.Pipe() // no input
	defer w.Close()
	status, out, notes, err := runVisit(t, d, r)
	if status != 0 || err != nil || !strings.HasPrefix(out, "one\x1b[H\x1b[2Jone two") {
		t.Errorf("%d, %v, %q", status, err, out)
	}
	if !strings.Contains(notes, "the connection is lost") || !strings.Contains(notes, "back again") {
		t.Errorf("notes %q", notes)
	}
}

// A write may notice a broken connection first. It is a lost connection nevertheless.
func TestVisitComesBackAfterAWrite(t *testing.T) {
	writes, over := make(chan struct{}, 2), make(chan struct{})
	refuse := func() error {
		writes <- struct{}{}
		return &belljar.Error{Code: belljar.CodeConflict, Message: "the terminal no longer accepts input"}
	}
	d := &fakeTerminals{refuse: refuse, visits: [][]any{
		{(<-chan struct{})(over), &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "connection reset"}}, {exit(0)},
	}}
	r, w := io.Pipe()
	defer w.Close()
	go func() {
		defer close(over)
		for range 2 { // the second proves that the first has ended nothing
			_, _ = w.Write([]byte("x"))
			<-writes
		}
	}()
	status, _, notes, err := runVisit(t, d, r)
	if status != 0 || err != nil || !strings.Contains(notes, "the connection is lost") {
		t.Errorf("%d, %v, %q", status, err, notes)
	}
}

func TestVisitEnds(t *testing.T) {
	for _, test := range []struct {
		last any
		want string
	}{
		{belljar.TerminalEvent{Kind: belljar.TerminalReplaced}, "has replaced this one"},
		{belljar.TerminalEvent{Kind: belljar.TerminalClosed, Reason: "the session expired"}, "the session expired"},
		{&belljar.Error{Code: belljar.CodeNotFound, Message: "no such terminal"}, "no such terminal"},
	} {
		d := &fakeTerminals{visits: [][]any{{say(belljar.TerminalOutput, "x"), test.last}}}
		r, w := io.Pipe()
		_, _, _, err := runVisit(t, d, r)
		w.Close()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// A proxy that refuses the WebSocket does not count as a lost connection, unless there was one.
func TestVisitNeverAttached(t *testing.T) {
	refused := &belljar.Error{Code: belljar.CodeInternal, Message: "the server answered 400 Bad Request, so it is not belljar"}
	for _, test := range []struct {
		visits [][]any
		want   error
	}{
		{[][]any{{refused}, {exit(0)}}, refused},
		{[][]any{{say(belljar.TerminalOutput, "x"), refused}, {refused}, {exit(0)}}, nil},
	} {
		r, w := io.Pipe()
		_, _, notes, err := runVisit(t, &fakeTerminals{visits: test.visits}, r)
		w.Close()
		if !errors.Is(err, test.want) || strings.Contains(notes, "trying again") != (test.want == nil) {
			t.Errorf("%v, %q", err, notes)
		}
	}
}

// An output that cannot be written, as on a full disk, is not a lost connection.
func TestVisitCannotWrite(t *testing.T) {
	d := &fakeTerminals{visits: [][]any{{say(belljar.TerminalOutput, "x")}}}
	r, w := io.Pipe()
	out, in := io.Pipe()
	out.CloseWithError(errors.New("full"))
	v := &Attachment{Stdin: r, Stdout: in, Notice: &notice.Writer{Stderr: io.Discard}, Terminals: d, ID: "t"}
	_, err := v.follow(t.Context())
	w.Close()
	if err == nil || err.Error() != "writing the terminal's output: full" {
		t.Error(err)
	}
}

// writeSignal is a writer that signals its first write.
type writeSignal struct {
	bytes.Buffer
	once  sync.Once
	begun chan struct{}
}

func (b *writeSignal) Write(p []byte) (int, error) {
	defer b.once.Do(func() { close(b.begun) })
	return b.Buffer.Write(p)
}

// TestVisitLeavesAServerThatIsAway detaches while the server is unavailable.
func TestVisitLeavesAServerThatIsAway(t *testing.T) {
	away := &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "connection refused"}
	d := &fakeTerminals{visits: slices.Repeat([][]any{{away}}, 100)}
	r, w := io.Pipe()
	defer w.Close()
	var out bytes.Buffer
	notes := &writeSignal{begun: make(chan struct{})}
	go func() {
		<-notes.begun // the server is known to be unavailable
		_, _ = io.WriteString(w, "ls\r")
		_, _ = io.WriteString(w, "\x03")
		_, _ = io.WriteString(w, "\x10\x11")
	}()
	v := &Attachment{
		Stdin: r, Stdout: &out, Notice: &notice.Writer{Stderr: notes}, Terminals: d, ID: "t", raw: true,
		Keys: Keys{typed: []byte("\x10\x11"), names: "ctrl-p,ctrl-q"},
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := v.follow(ctx); !errors.Is(err, ErrDetached) {
		t.Errorf("%v, want %v", err, ErrDetached)
	}
	if !strings.Contains(notes.String(), "ctrl-p ctrl-q leaves") {
		t.Errorf("notes %q", notes.String())
	}
}

// TestVisitOutlivesAStop restarts the server: the visit reattaches to the terminal.
func TestVisitOutlivesAStop(t *testing.T) {
	d := &fakeTerminals{visits: [][]any{
		{say(belljar.TerminalOutput, "one"), belljar.TerminalEvent{Kind: belljar.TerminalClosed, Reason: "shutdown"}},
		{say(belljar.TerminalHistory, "one two"), exit(7)},
	}}
	r, w := io.Pipe()
	defer w.Close()
	status, out, _, err := runVisit(t, d, r)
	if status != 7 || err != nil || !strings.HasSuffix(out, "one two") {
		t.Errorf("%d, %v, %q", status, err, out)
	}
}
