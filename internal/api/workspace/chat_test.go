package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/socket"
	"github.com/belljar/belljar/internal/workspace"
)

// input is the input of a program. Each write calls wrote, and is refused if that returns an error.
type input struct {
	belljar.Stdin
	got   bytes.Buffer
	wrote func() error
	gone  chan struct{}
}

func (i *input) Write(b []byte) (int, error) {
	if err := i.wrote(); err != nil {
		return 0, err
	}
	return i.got.Write(b)
}

func (i *input) Close() error {
	close(i.gone)
	return nil
}

// A line that needs several writes stays whole while another client sends one.
func TestTellsDoNotMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door, in := &Door{}, &input{}
		ann, bob := &chat{call: &call{door: door}, program: &program{runID: "run", stdin: in}}, &chat{call: &call{door: door}, program: &program{runID: "run", stdin: in}}
		long, sent := strings.Repeat("a", 3*inputPiece), false
		in.wrote = func() error {
			if !sent {
				sent = true
				go func() {
					if err := bob.tell(t.Context(), "bob", nil); err != nil {
						t.Error(err)
					}
				}()
				synctest.Wait()
			}
			return nil
		}
		if err := ann.tell(t.Context(), long, nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := in.got.String(); got != `"`+long+"\"\n\"bob\"\n" {
			t.Errorf("%d bytes: …%s", len(got), got[max(0, len(got)-80):])
		}
	})
}

// far is the input of a program on another machine, over a connection of its own. Write returns at once.
type far struct {
	belljar.Stdin
	pieces  chan []byte // on their way; nil is a flush
	flushed chan error
}

func newFar() *far { return &far{pieces: make(chan []byte, 10), flushed: make(chan error, 1)} }

func (f *far) Write(b []byte) (int, error) {
	f.pieces <- bytes.Clone(b)
	return len(b), nil
}

func (f *far) Flush() error {
	f.pieces <- nil
	return <-f.flushed
}

// deliver passes the next piece, if there is one, to a program that has got the bytes in got.
func (f *far) deliver(got *bytes.Buffer) bool {
	select {
	case piece := <-f.pieces:
		if got.Write(piece); piece == nil {
			f.flushed <- nil
		}
		return true
	default:
		return false
	}
}

// Lines of two clients stay whole if the program is on another machine: one that is still on its way does not come in between the pieces of
// the next one.
func TestFarTellsDoNotMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door, links, got, long := &Door{}, []*far{newFar(), newFar(), newFar()}, bytes.Buffer{}, strings.Repeat("a", 3*inputPiece)
		want := ""
		for i, line := range []string{"bob", long, "eve"} {
			x := &chat{call: &call{door: door}, program: &program{runID: "run", stdin: links[i]}}
			go func() {
				if err := x.tell(t.Context(), line, nil); err != nil {
					t.Error(err)
				}
			}()
			want += `"` + line + "\"\n"
			synctest.Wait() // in this order
		}
		for more := true; more; {
			more = false
			for _, link := range []*far{links[1], links[0], links[2]} {
				more = link.deliver(&got) || more
				synctest.Wait()
			}
		}
		if got.String() != want {
			t.Errorf("%d bytes: …%s", got.Len(), got.String()[max(0, got.Len()-80):])
		}
	})
}

// A line is cut, too, if the connection to the program's machine breaks before the program has all of it.
func TestFarCutLine(t *testing.T) {
	door, link := &Door{}, newFar()
	x := &chat{call: &call{door: door}, program: &program{runID: "run", stdin: link}}
	link.flushed <- &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "the connection for standard input broke"}
	if err := x.tell(t.Context(), strings.Repeat("a", 2*inputPiece), nil); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
		t.Error(err)
	}
	next, got := newFar(), bytes.Buffer{}
	next.flushed <- nil
	x.program.stdin = next
	if err := x.tell(t.Context(), "next", nil); err != nil {
		t.Error(err)
	}
	if next.deliver(&got); got.String() != "\n\"next\"\n" {
		t.Errorf("%q", got.String())
	}
}

// A client that leaves within its message cuts it if the program does not read the rest in time. The next message is a line of its own.
func TestCutLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door, in := &Door{}, &input{gone: make(chan struct{})}
		ann, bob := &chat{call: &call{door: door}, program: &program{runID: "run", stdin: in}}, &chat{call: &call{door: door}, program: &program{runID: "run", stdin: &input{gone: make(chan struct{})}}}
		ctx, leave := context.WithCancel(t.Context())
		writes, begun := 0, time.Now()
		in.wrote = func() error {
			if writes++; writes == 1 {
				return nil
			}
			leave()
			<-in.gone
			return &belljar.Error{Code: belljar.CodeConflict, Message: "standard input was released"}
		}
		if err := ann.tell(ctx, strings.Repeat("a", 2*inputPiece), nil); err == nil || time.Since(begun) != tellGrace {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		other := bob.program.stdin.(*input)
		other.wrote = func() error { return nil }
		for _, line := range []string{"one", "two"} {
			if err := bob.tell(t.Context(), line, nil); err != nil {
				t.Error(err)
			}
		}
		if got := other.got.String(); got != "\n\"one\"\n\"two\"\n" {
			t.Errorf("%q", got)
		}
	})
}

// A client that leaves does not cut its message if the program reads it.
func TestLeavingFinishesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		in := &input{gone: make(chan struct{})}
		in.wrote = func() error {
			leave()
			synctest.Wait()
			select {
			case <-in.gone:
				return errors.New("released")
			default:
				return nil
			}
		}
		x := &chat{call: &call{door: &Door{}}, program: &program{runID: "run", stdin: in}}
		if err := x.tell(ctx, strings.Repeat("a", 2*inputPiece), nil); err != nil || !strings.HasSuffix(in.got.String(), "\"\n") {
			t.Errorf("%d bytes, %v", in.got.Len(), err)
		}
	})
}

// Browsers close a WebSocket that has a byte that is not UTF-8 in a text message.
func TestProgramLineIsText(t *testing.T) {
	for line, want := range map[string]string{"{\"type\":\"x\",\"a\":\"\xff\"}": "{\"type\":\"x\",\"a\":\"\uFFFD\"}", ` {"type":"é"} `: `{"type":"é"}`} {
		if raw, ok := programLine([]byte(line)).([]byte); !ok || !utf8.Valid(raw) || string(raw) != want {
			t.Errorf("%q", raw)
		}
	}
	if got := programLine([]byte("no\xff")); got != any(system{Type: "system", Subtype: "echo", Payload: "no\uFFFD"}) {
		t.Errorf("%+v", got)
	}
}

// The message that begins a conversation is repeated as the last one, so that a client that counts arrives at the next number.
func TestRepeatedMessageIsCounted(t *testing.T) {
	frames := []string{`{"type":"system","subtype":"init"}`, "x", "y"}
	p := &program{cancel: func() {}, next: func() (belljar.Frame, error, bool) {
		f := belljar.Frame{Type: belljar.FrameStdout, Seq: uint64(4 - len(frames)), Output: []byte(frames[0] + "\n")}
		frames = frames[1:]
		return f, nil, true
	}}
	if err := p.recall(3, 0, false); err != nil || p.before != 2 || len(p.past) != 1 {
		t.Errorf("%d before %d, %v", p.before, len(p.past), err)
	}
}

// replacing is an engine with one chat, whose program is replaced.
type replacing struct{ workspace.Engine }

func (replacing) Runs() belljar.Runs { return replacingRuns{} }

type replacingRuns struct{ belljar.Runs }

func (replacingRuns) List(context.Context, belljar.RunQuery) (belljar.RunPage, error) {
	return belljar.RunPage{Items: []belljar.Run{{ID: "old", Labels: map[string]string{label: "chat", chatLabel: "c"}}}}, nil
}

func (replacingRuns) Cancel(context.Context, string) error { return nil }

func (replacingRuns) Start(context.Context, belljar.RunRequest) (belljar.Run, error) {
	return belljar.Run{ID: "new"}, nil
}

func (replacingRuns) Get(_ context.Context, id string) (belljar.Run, error) {
	if id != "new" {
		return belljar.Run{}, errors.New("another run")
	}
	return belljar.Run{ID: id, ExitCode: new(0), Phase: belljar.PhaseCompleted}, nil
}

func (replacingRuns) Frames(_ context.Context, id string, _ uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		if id == "new" {
			_ = yield(belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventStart, Seq: 1}, nil) &&
				yield(belljar.Frame{Type: belljar.FrameStdout, Output: []byte("{\"type\":\"new\"}\n"), Seq: 2}, nil)
		}
	}
}

func (replacingRuns) Stdin(context.Context, string) (belljar.Stdin, error) {
	return nil, &belljar.Error{Code: belljar.CodeConflict}
}

// What a program has printed comes before the report that it was restarted: a client counts what follows as the new program's.
func TestRestartedComesAfterOldOutput(t *testing.T) {
	late := make(chan struct{})
	frames := []string{"{\"type\":\"old\"}\n"}
	old := &program{runID: "old", cancel: func() {}, stop: func() {}, next: func() (belljar.Frame, error, bool) {
		<-late
		if len(frames) == 0 {
			return belljar.Frame{}, nil, false
		}
		f := belljar.Frame{Type: belljar.FrameStdout, Output: []byte(frames[0])}
		frames = nil
		return f, nil, true
	}}
	x := chatWith(t, replacing{}, old)
	var got []string
	emit := func(m any) error {
		raw, ok := m.([]byte)
		if !ok {
			raw, _ = json.Marshal(m)
		}
		var is struct{ Type, Subtype string }
		if err := json.Unmarshal(raw, &is); err != nil {
			return err
		}
		got = append(got, is.Type+is.Subtype)
		return nil
	}
	if err := x.Receive(t.Context(), true, []byte(`{"type":"restart"}`), emit); err != nil {
		t.Fatal(err)
	}
	close(late)
	x.Follow(t.Context(), emit)
	if want := []string{"old", "systemrestarted", "systemconnected", "new"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A program that was replaced before the client has seen its messages is not read any longer.
func TestRestartTwice(t *testing.T) {
	stopped := ""
	ended := func(id string) *program { return &program{runID: id, stop: func() { stopped += id + " " }} }
	x := chatWith(t, replacing{}, ended("old"))
	x.replace(ended("first"))
	x.replace(ended("second"))
	if stopped != "first " {
		t.Errorf("stopped: %s", stopped)
	}
}

// A program that the client was to see next, and that was replaced, is not read any longer after the client has left.
func TestLeavingStopsTheSuccessor(t *testing.T) {
	stopped := map[string]bool{}
	ended := func(id string) *program {
		return &program{runID: id, cancel: func() {}, stop: func() { stopped[id] = true }, next: func() (belljar.Frame, error, bool) { return belljar.Frame{}, nil, false }}
	}
	x := chatWith(t, replacing{}, ended("old"))
	x.call.door.clients = map[string]int{"c": 1}
	x.replace(ended("second"))
	x.Follow(t.Context(), func(any) error {
		x.replace(ended("third"))
		return errors.New("the client has left")
	})
	x.Close()
	for _, id := range []string{"old", "second", "third"} {
		if !stopped[id] {
			t.Errorf("%s is still read", id)
		}
	}
}

// named is a source with a mode only.
type named struct{ workspace.Source }

func (named) Mode() string { return "sandbox" }

// chatWith returns a chat with a client that sees the messages of p.
func chatWith(t *testing.T, engine workspace.Engine, p *program) *chat {
	o := Options{Source: named{}, ChatLifetime: time.Minute, Logger: slog.New(slog.DiscardHandler), Templates: Templates{"p": {Kind: "chat", Command: []string{"p"}}}}
	tokens := &socket.Tokens{Sealer: api.NewCipher([]byte(strings.Repeat("s", 32)), "w1.", "test"), Audience: "test", TTL: time.Minute, Now: time.Now}
	return &chat{
		call: &call{Workspace: workspace.Workspace{Engine: engine}, door: &Door{opts: o, tokens: tokens, starting: map[string]string{}}, r: httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)},
		id:   "c", template: "p", program: p, shown: p, greeted: true,
	}
}
