package workspace

import (
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/workspace"
)

func TestStatusOf(t *testing.T) {
	in := " M a\x00?? new file\x00UU c\x00AA both\x00 D gone\x00A  added\x00R  to\x00from\x00 T link\x00MM quo\"te\nline\x00D  x\xff\x00AD ad\x00"
	want := map[string]string{
		"a": "M", "new file": "U", "c": "C", "both": "C", "gone": "D", "added": "A", "to": "M", "link": "M", "quo\"te\nline": "M", "x\uFFFD": "D", "ad": "D",
	}
	if got := statusOf([]byte(in)); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	for _, bad := range []string{"", "x", "\x00\x00", "R  a", "R  a\x00"} {
		statusOf([]byte(bad)) // must not panic
	}
}

func TestGlob(t *testing.T) {
	for pattern, names := range map[string]string{
		"*.py": "a.py A.PY .py !a.pyc", "m?in": "main MAIN !mn", "[ab]x": "ax Bx !cx", "[!a]": "b !a", "[": "[ !x", "a[": "a[", "x.y": "x.y !xzy", "[]]": "]",
		"[a-c]*": "abc Cde !d", "": "", "^": "^ !a", "[^a]": "^ a !b", "*": "x é",
	} {
		match, err := glob(pattern)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		for _, name := range strings.Fields(names) {
			bare := strings.TrimPrefix(name, "!")
			if match.MatchString(bare) == (bare != name) {
				t.Errorf("%s and %s", pattern, name)
			}
		}
	}
}

func FuzzGlob(f *testing.F) {
	for _, seed := range []string{"*", "[a", "[!]", "[z-a]", "\\", "[[:alpha:]]", "é?"} {
		f.Add(seed, "name")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if match, err := glob(pattern); err == nil {
			match.MatchString(name)
		}
	})
}

func TestTemplates(t *testing.T) {
	for text, want := range map[string]string{
		`{"A":{"kind":"pty"}}`: "lower-case", `{"a":{"kind":"x"}}`: "pty or chat", `{"a":{"kind":"chat"}}`: "needs a command",
		`{"a":{"kind":"pty","start":["x"],"command":["x"]}}`: "for chats", `{"a":{"kind":"pty","surprise":1}}`: "surprise",
		`{"a":{"kind":"chat","command":["x"],"parameters":{"model":{"arguments":["x"]}}}}`:                "values or a pattern",
		`{"a":{"kind":"chat","command":["x"],"parameters":{"model":{"pattern":"(","arguments":["x"]}}}}`:  "model",
		`{"a":{"kind":"chat","command":["x"],"parameters":{"shell":{"values":["x"],"arguments":["x"]}}}}`: "not known",
		`{"a":{"kind":"chat","command":["x"],"parameters":{"model":{"values":["x"],"arguments":[]}}}}`:    "no arguments",
		`{"a":{"kind":"pty","parameters":{"model":{"values":["x"],"arguments":["x"]}}}}`:                  "need a command",
		`[]`: "",
	} {
		if _, err := ParseTemplates(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	list, err := ParseTemplates(`{"c":{"kind":"chat","command":["p"],"parameters":{"model":{"values":["a b","-x"],"arguments":["--m","{value}"]},"max_turns":{"pattern":".*","arguments":["--t={value}"]},"file":{"pattern":"[^;]*","arguments":["-f","{value}"]}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	c := list["c"]
	for query, want := range map[string][]string{
		"model=a+b&maxTurns=7": {"p", "--t=7", "--m", "a b"}, "model=-x": {"p", "--m", "-x"}, "": {"p"}, "provider=x&command=rm": {"p"},
		"files=a,%20b/c,,a": {"p", "-f", "a", "-f", "b/c"}, "file=a&file=b&files=c": {"p", "-f", "a", "-f", "b"}, "files=,": {"p"},
		"file=a&file=b%3B": nil, "file=../a": nil, "file=/a": nil, "files=a,-b": nil, "file=a%00": nil, "files=" + strings.Repeat("a,", 40) + strings.Repeat("b", 256): nil,
		"model=c": nil, "max_turns=-x": nil, "model=a%20b%3Brm": nil, "max_turns=a%00": nil, "max_turns=" + strings.Repeat("9", 300): nil,
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.command(optionsOf(c, q), "id", nil); !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%s: %q, %v", query, got, err)
		}
	}
}

// A run of the user's own may have the labels of a chat: control messages can set options in it.
func TestOptionsOfAnyLabel(t *testing.T) {
	template := Template{Parameters: map[string]Parameter{"model": {Values: []string{"m"}}}}
	for _, text := range []string{"null", "", "[]", `{"model":"x"}`} {
		had := optionsHad(belljar.Run{Labels: map[string]string{optionsLabel: text}})
		if got := template.with(had, options{"model": "m"}); got["model"] != "m" {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestLines(t *testing.T) {
	var l lines
	var got []string
	for _, piece := range []string{"a", "b\r\n", "\n", "c\nd", "", "e\n" + strings.Repeat("x", maxLine+10), "y\nz"} {
		for _, line := range l.add([]byte(piece), false) {
			got = append(got, string(line))
		}
	}
	if len(got) != 4 || got[0] != "ab" || got[1] != "c" || got[2] != "de" || len(got[3]) != maxLine || string(l.held) != "z" {
		t.Errorf("%d lines: %.20q", len(got), got)
	}
	if last := l.add(nil, true); len(last) != 1 || string(last[0]) != "z" || len(l.add(nil, true)) != 0 {
		t.Errorf("at the end: %q", last)
	}
}

// busy is an engine with two running chats. No more can start.
type busy struct {
	workspace.Engine
	runs *busyRuns
}

func (b busy) Runs() belljar.Runs { return b.runs }

type busyRuns struct {
	belljar.Runs
	canceled []string
}

func (b *busyRuns) List(context.Context, belljar.RunQuery) (belljar.RunPage, error) {
	return belljar.RunPage{Items: []belljar.Run{
		{ID: "second", Labels: map[string]string{label: "chat", chatLabel: "c"}}, {ID: "another", Labels: map[string]string{label: "chat", chatLabel: "d"}},
	}}, nil
}

func (b *busyRuns) Cancel(_ context.Context, id string) error {
	b.canceled = append(b.canceled, id)
	return nil
}

func (b *busyRuns) Frames(context.Context, string, uint64) iter.Seq2[belljar.Frame, error] {
	return func(func(belljar.Frame, error) bool) {}
}

func (b *busyRuns) Start(context.Context, belljar.RunRequest) (belljar.Run, error) {
	return belljar.Run{}, io.EOF
}

// A restart ends the program that another client's restart has started, not the previous one.
func TestRestartEndsWhatRuns(t *testing.T) {
	b := &busyRuns{}
	x := &chat{
		call: &call{Workspace: workspace.Workspace{Engine: busy{runs: b}}, door: &Door{starting: map[string]string{}}, r: httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)},
		id:   "c", program: &program{runID: "first"},
	}
	if err := x.restart(t.Context()); !errors.Is(err, io.EOF) || !slices.Equal(b.canceled, []string{"second"}) {
		t.Errorf("%v ended, %v", b.canceled, err)
	}
}

// crowded is an engine with seven running chats and one in the queue.
type crowded struct{ workspace.Engine }

func (crowded) Runs() belljar.Runs { return crowdedRuns{} }

type crowdedRuns struct{ belljar.Runs }

func (crowdedRuns) List(_ context.Context, q belljar.RunQuery) (page belljar.RunPage, err error) {
	for i := range map[belljar.Phase]int{belljar.PhaseQueued: 1, belljar.PhaseRunning: maxChats - 1}[q.Phase] {
		id := string(q.Phase) + strconv.Itoa(i)
		page.Items = append(page.Items, belljar.Run{ID: id, Labels: map[string]string{label: "chat", chatLabel: id}})
	}
	return page, nil
}

// A chat in the queue counts, also after its client has left.
func TestQueuedChatsCount(t *testing.T) {
	x := chatWith(t, crowded{}, nil)
	if _, err := x.reserve(t.Context(), false); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
		t.Errorf("a ninth chat: %v", err)
	}
}

// blocking is an engine with seven running chats. The program of one more has been ended, and the next one starts until it is released.
type blocking struct {
	workspace.Engine
	entered, leave chan struct{}
}

func (e blocking) Runs() belljar.Runs { return blockingRuns{e: e} }

type blockingRuns struct {
	crowdedRuns
	e blocking
}

func (r blockingRuns) List(ctx context.Context, q belljar.RunQuery) (belljar.RunPage, error) {
	if q.Phase == belljar.PhaseQueued {
		return belljar.RunPage{}, nil
	}
	return r.crowdedRuns.List(ctx, q)
}

func (blockingRuns) Cancel(context.Context, string) error { return nil }

func (blockingRuns) Frames(context.Context, string, uint64) iter.Seq2[belljar.Frame, error] {
	return func(func(belljar.Frame, error) bool) {}
}

func (r blockingRuns) Start(context.Context, belljar.RunRequest) (belljar.Run, error) {
	r.e.entered <- struct{}{}
	<-r.e.leave
	return belljar.Run{}, io.EOF
}

// A chat whose program is being replaced counts, for a restart as for a client that returns with other options.
func TestRestartingChatsCount(t *testing.T) {
	restarts := map[string]func(x *chat) error{
		"restart": func(x *chat) error { return x.restart(t.Context()) },
		"options": func(x *chat) error {
			return x.resume([]belljar.Run{{ID: "old"}}, x.call.door.opts.Templates[x.template])
		},
	}
	for name, replace := range restarts {
		t.Run(name, func(t *testing.T) {
			e := blocking{entered: make(chan struct{}), leave: make(chan struct{})}
			x, done := chatWith(t, e, nil), make(chan error, 1)
			x.options = options{"model": "m"}
			x.call.door.opts.Templates["p"] = Template{Kind: "chat", Command: []string{"p"}, Parameters: map[string]Parameter{"model": {Values: []string{"m"}, Arguments: []string{"x"}}}}
			other := &chat{call: x.call, id: "other"}
			go func() { done <- replace(x) }()
			select {
			case <-e.entered:
			case err := <-done:
				t.Fatal("it has not started:", err)
			}
			if _, err := other.reserve(t.Context(), false); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
				t.Errorf("a ninth chat: %v", err)
			}
			close(e.leave)
			if err := <-done; !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			release, err := other.reserve(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			release()
		})
	}
}

// waiting is an engine whose runs still wait in the queue: their logs are empty.
type waiting struct{ workspace.Engine }

func (waiting) Runs() belljar.Runs { return waitingRuns{} }

type waitingRuns struct{ belljar.Runs }

func (waitingRuns) Get(context.Context, string) (belljar.Run, error) { return belljar.Run{}, nil }

func (waitingRuns) Frames(ctx context.Context, _ string, _ uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		<-ctx.Done()
		yield(belljar.Frame{}, ctx.Err())
	}
}

// A client that leaves before its program runs does not wait for it. A server that stops does not,
// either.
func TestRecallEndsWithItsClient(t *testing.T) {
	x := &chat{call: &call{Workspace: workspace.Workspace{Engine: waiting{}}}}
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := x.follows(ctx, "run", 0, true)
		done <- err
	}()
	leave()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits")
	}
}

// noisy is an engine whose commands print much to stderr, in small pieces.
type noisy struct{ workspace.Engine }

func (noisy) Runs() belljar.Runs { return noisyRuns{} }

type noisyRuns struct{ belljar.Runs }

func (noisyRuns) Start(context.Context, belljar.RunRequest) (belljar.Run, error) {
	return belljar.Run{}, nil
}

func (noisyRuns) Get(context.Context, string) (belljar.Run, error) { return belljar.Run{}, nil }

func (noisyRuns) Frames(context.Context, string, uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		for _, text := range []string{"fatal: not a git repository\n", strings.Repeat("x", errBytes), strings.Repeat("y", 100)} {
			if !yield(belljar.Frame{Type: belljar.FrameStderr, Output: []byte(text)}, nil) {
				return
			}
		}
	}
}

// Only the beginning of a command's stderr is kept, however long it is.
func TestErrorsAreShort(t *testing.T) {
	c := &call{Workspace: workspace.Workspace{Engine: noisy{}}}
	o, err := c.exec(t.Context(), "git", time.Minute, nil, "git")
	if err != nil || len(o.err) != errBytes || !strings.HasPrefix(o.err, "fatal: not a git repository\nx") {
		t.Errorf("%d bytes, %v: %.40q", len(o.err), err, o.err)
	}
}

// queued is an engine whose commands wait in a queue. It records which are cancelled.
type queued struct {
	waiting
	cancelled *[]string
}

func (q queued) Runs() belljar.Runs { return queuedRuns{q.waiting.Runs(), q.cancelled} }

type queuedRuns struct {
	belljar.Runs
	cancelled *[]string
}

func (queuedRuns) Start(context.Context, belljar.RunRequest) (belljar.Run, error) {
	return belljar.Run{ID: "run"}, nil
}

func (q queuedRuns) Cancel(ctx context.Context, id string) error {
	*q.cancelled = append(*q.cancelled, id)
	return ctx.Err()
}

// A command that waits for too long is cancelled, and its client gets the reason.
func TestCommandsThatWait(t *testing.T) {
	var cancelled []string
	c := &call{Workspace: workspace.Workspace{Engine: queued{cancelled: &cancelled}}}
	_, err := c.exec(t.Context(), "git", -time.Minute, nil, "git")
	if belljar.CodeOf(err) != belljar.CodeTimeout || !slices.Equal(cancelled, []string{"run"}) {
		t.Errorf("%v, cancelled %q", err, cancelled)
	}
}

// Repeated messages are read as they are sent: a program can print millions of lines, and many clients may request them at the same time.
func TestRecallHoldsLittle(t *testing.T) {
	read := 0
	p := &program{cancel: func() {}, next: func() (belljar.Frame, error, bool) {
		if read++; read == 11 {
			return belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventEnd, Seq: 11}, nil, true
		}
		return belljar.Frame{Type: belljar.FrameStdout, Seq: uint64(read), Output: []byte("x\ny\nz\n")}, nil, read < 11
	}}
	if err := p.recall(10, 9, false); err != nil || p.before != 8 || read != 3 || len(p.past) != 1 {
		t.Fatalf("%d messages before, %d frames read, %d messages held, %v", p.before, read, len(p.past), err)
	}
	sent := 0
	if err := p.emit(t.Context(), func(any) error { sent++; return nil }); err != nil || p.before+sent != 30 {
		t.Errorf("%d messages after %d, %v", sent, p.before, err)
	}
}

// A message of many tiny values is refused before it is decoded, which would take 60 times its size in memory.
func TestChatMessageOfManyValues(t *testing.T) {
	var got []any
	raw := []byte(`{"type":"ping","more":[` + strings.Repeat("[],", 60_000) + `0]}`)
	if err := (&chat{}).Receive(t.Context(), false, raw, func(m any) error { got = append(got, m); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0] != any(chatError("a message has at most 100000 values")) {
		t.Errorf("%+v", got)
	}
}

// linked is an engine whose only folder has n links to it. Each look at one is counted, and fails with err.
type linked struct {
	workspace.Engine
	n     int
	err   error
	looks *atomic.Int64
}

func (e linked) Files() belljar.Files { return linkedFiles{e: e} }

type linkedFiles struct {
	belljar.Files
	e linked
}

func (f linkedFiles) List(context.Context, string, belljar.FileQuery) (list belljar.FileList, err error) {
	for i := range f.e.n {
		list.Entries = append(list.Entries, belljar.FileEntry{Path: strconv.Itoa(i), Type: "symlink", Target: "."})
	}
	return list, nil
}

func (f linkedFiles) Stat(context.Context, string, string) (belljar.FileEntry, error) {
	f.e.looks.Add(1)
	return belljar.FileEntry{Path: ".", Type: "dir"}, f.e.err
}

// The links of one folder are a bounded number of requests. A tree whose links were not all followed is truncated.
func TestManyLinks(t *testing.T) {
	missing, gone := &belljar.Error{Code: belljar.CodeNotFound}, &belljar.Error{Code: belljar.CodeRuntimeUnavailable}
	for _, c := range []struct {
		n    int
		err  error
		dirs int
		cut  cut
	}{
		{maxLinks, nil, maxLinks, cut{}}, {maxLinks + 1, nil, maxLinks, cut{true, "node_limited"}}, {2, missing, 0, cut{}}, {2, gone, 0, cut{true, "node_limited"}},
	} {
		e := linked{n: c.n, err: c.err, looks: new(atomic.Int64)}
		x := chatWith(t, e, nil)
		x.call.door.opts.Bodies = api.JSONShares()
		got, err := x.call.tree(".")
		if err != nil {
			t.Fatal(err)
		}
		out, dirs, visited := got.(tagged).v.(tree), 0, 0
		for _, e := range out.Entries {
			if e.Dir {
				dirs++
			}
		}
		if c.cut.Truncated {
			visited = c.n
		}
		if dirs != c.dirs || out.cut != c.cut || out.Visited != visited || len(out.Entries) != c.n || e.looks.Load() != int64(min(c.n, maxLinks)) {
			t.Errorf("%d links, %v: %d folders of %d, %+v, %d visited, %d looks", c.n, c.err, dirs, len(out.Entries), out.cut, out.Visited, e.looks.Load())
		}
	}
}
