package stream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/linetest"
	"github.com/belljar/belljar/internal/event"
)

func asClose(err error, closed *websocket.CloseError) bool { return errors.As(err, closed) }

const (
	hello = `{"type":"stdout","encoding":"utf8","data":"hello","seq":1}`
	world = `{"type":"stderr","encoding":"base64","data":"//4=","seq":2}`
	ended = `{"type":"event","event":"end","data":{"exit_code":0},"seq":3}`
)

// finished is a run of three frames: hello, world, the end.
func finished(b *bench, id string) *run {
	r := b.add(id)
	r.print("hello")
	r.say(belljar.Frame{Type: belljar.FrameStderr, Output: []byte{0xff, 0xfe}})
	r.end()
	return r
}

// A late reader gets the whole log and a clean close; with from_seq or since_seq it gets the log from there.
func TestStarts(t *testing.T) {
	b := newBench(t)
	finished(b, "r")
	finished(b, "hinted").state.ResumeFromSeq = 2
	swept := b.add("swept", func(r *run) { r.first = 3 })
	swept.end()
	const beyond = `{"type":"event","event":"resume","data":{"delivered_from_seq":3,"lost_count":0,"requested_from_seq":99},"seq":3}`
	for _, test := range []struct {
		id, query string
		want      []string
	}{
		{"r", "", []string{hello, world, ended}},
		{"r", "?from_seq=0", []string{hello, world, ended}},
		{"r", "?from_seq=1", []string{hello, world, ended}},
		{"r", "?from_seq=2", []string{world, ended}},
		{"r", "?since_seq=0", []string{hello, world, ended}},
		{"r", "?since_seq=2", []string{ended}},
		{"r", "?since_seq=3", nil},
		{"r", "?from_seq=4", nil},
		{"r", "?from_seq=99", []string{beyond, ended}},
		{"r", "?since_seq=98", []string{beyond, ended}},
		{"r", "?from_seq=tail", nil},
		{"hinted", "", []string{world, ended}},
		{"hinted", "?from_seq=1", []string{hello, world, ended}},
		{"hinted", "?since_seq=2", []string{ended}},
		{"swept", "", []string{
			`{"type":"event","event":"resume","data":{"delivered_from_seq":3,"lost_count":2,"requested_from_seq":1},"seq":3}`, ended,
		}},
		{"swept", "?since_seq=1", []string{
			`{"type":"event","event":"resume","data":{"delivered_from_seq":3,"lost_count":1,"requested_from_seq":2},"seq":3}`, ended,
		}},
		{"swept", "?from_seq=3", []string{ended}},
		{"swept", "?from_seq=tail", nil},
	} {
		t.Run(test.id+test.query, func(t *testing.T) {
			conn := b.open(test.id, test.query)
			b.want(conn, test.want...)
			b.wantClose(conn, websocket.StatusNormalClosure, "end of log")
		})
	}
	if got := b.diary.reasons(event.StreamClosed); strings.Join(got, "") != strings.Repeat("end", len(got)) {
		t.Errorf("streams closed by %v", got)
	}
}

// A reader that asks for a frame beyond the log of a live run waits for it. If the log ends in front of it, the reader gets a note and the end.
func TestBeyondTheLog(t *testing.T) {
	b := newBench(t)
	r := b.add("r")
	r.print("before")
	conn, ahead := b.open("r", "?from_seq=99"), b.open("r", "?from_seq=3")
	b.diary.await(t, event.StreamOpened, 2)
	r.print("not requested")
	r.print("three")
	r.end()
	b.want(ahead, `{"type":"stdout","encoding":"utf8","data":"three","seq":3}`)
	b.want(ahead, `{"type":"event","event":"end","data":{"exit_code":0},"seq":4}`)
	b.wantClose(ahead, websocket.StatusNormalClosure, "end of log")
	frames, closed := b.drain(conn)
	if len(frames) != 2 || frames[0].Event != belljar.EventResume || frames[1].Event != belljar.EventEnd || closed.Code != websocket.StatusNormalClosure {
		t.Errorf("%+v, %v", frames, closed)
	}
}

// Frames arrive as they are appended, and a reader at the tail gets new frames only, without a note.
func TestLive(t *testing.T) {
	b := newBench(t)
	r := b.add("r")
	r.print("before")
	all, tail := b.open("r", ""), b.open("r", "?from_seq=tail")
	b.want(all, `{"type":"stdout","encoding":"utf8","data":"before","seq":1}`)
	b.diary.await(t, event.StreamOpened, 2)
	// The reader at the tail is in position once it has received a frame: a heartbeat.
	stop := make(chan struct{})
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				r.say(belljar.Frame{Type: belljar.FrameHeartbeat, Time: time.Unix(1, 0)})
			}
		}
	}()
	first, _, err := b.read(tail)
	if err != nil || first.Type != belljar.FrameHeartbeat || first.Seq < 2 {
		t.Fatalf("the first frame at the tail is %+v, %v", first, err)
	}
	close(stop)
	<-beating
	r.end()
	for conn, next := range map[*websocket.Conn]uint64{all: 2, tail: first.Seq + 1} {
		frames, closed := b.drain(conn)
		for i, f := range frames {
			if f.Seq != next+uint64(i) {
				t.Fatalf("frame %d has seq %d, want %d", i, f.Seq, next+uint64(i))
			}
		}
		if last := frames[len(frames)-1]; last.Event != belljar.EventEnd || closed.Code != websocket.StatusNormalClosure {
			t.Errorf("the last frame is %+v, close %v", last, closed)
		}
	}
}

// A refusal comes before the upgrade, in the API's envelope.
func TestRefusals(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.MaxReaders = 1
		o.Connect = func(r *http.Request) error {
			if r.Header.Get("X-Eager") != "" {
				return &belljar.Error{Code: belljar.CodeRateLimited, Message: "too many requests"}
			}
			return nil
		}
	})
	finished(b, "r")
	b.add("live")
	b.add("broken", interactive).refuse = &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "down"}
	busy := b.open("live", "")
	defer busy.CloseNow()
	for _, test := range []struct {
		name, id, query string
		header          http.Header
		status          int
		code            belljar.Code
	}{
		{"unknown run", "nope", "", as("bob"), 404, belljar.CodeNotFound},
		{"another's run", "r", "", as("bob"), 404, belljar.CodeNotFound},
		{"nobody", "r", "", nil, 401, belljar.CodeUnauthorized},
		{"bad token", "r", "?token=x", as("ann"), 401, belljar.CodeUnauthorized},
		{"two tokens", "r", "?token=x&token=y", as("ann"), 400, belljar.CodeInvalidRequest},
		{"not a number", "r", "?from_seq=one", as("ann"), 400, belljar.CodeInvalidRequest},
		{"negative", "r", "?from_seq=-1", as("ann"), 400, belljar.CodeInvalidRequest},
		{"too large", "r", "?since_seq=18446744073709551615", as("ann"), 400, belljar.CodeInvalidRequest},
		{"both", "r", "?from_seq=1&since_seq=1", as("ann"), 400, belljar.CodeInvalidRequest},
		{"twice", "r", "?from_seq=1&from_seq=1", as("ann"), 400, belljar.CodeInvalidRequest},
		{"unknown parameter", "r", "?fromseq=1", as("ann"), 400, belljar.CodeInvalidRequest},
		{"too many readers", "r", "", as("ann"), 429, belljar.CodeRateLimited},
		{"too often", "r", "", http.Header{"X-User": {"ann"}, "X-Eager": {"1"}}, 429, belljar.CodeRateLimited},
		{"foreign page", "r", "", http.Header{"X-User": {"ann"}, "Origin": {"https://evil.example"}}, 403, belljar.CodeForbidden},
		{"no page", "r", "", http.Header{"X-User": {"ann"}, "Origin": {"null"}}, 403, belljar.CodeForbidden},
		{"stdin fails", "broken", "", http.Header{"X-User": {"root"}, "X-Admin": {"1"}}, 503, belljar.CodeRuntimeUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, answer, err := b.dial(test.id, test.query, test.header)
			if err == nil || answer == nil || answer.StatusCode != test.status {
				t.Fatalf("%v, answer %+v; want %d", err, answer, test.status)
			}
			var body struct{ Error belljar.Error }
			if err := json.NewDecoder(answer.Body).Decode(&body); err != nil || body.Error.Code != test.code {
				t.Errorf("body %+v, %v; want %s", body, err, test.code)
			}
		})
	}
	answer, text := b.get(b.path("r", "stream"), as("ann"))
	if answer.StatusCode != 400 || answer.Header.Get("Upgrade") != "websocket" || !strings.Contains(text, "WebSocket") {
		t.Errorf("without an upgrade: %d %v %s", answer.StatusCode, answer.Header, text)
	}
	answer, text = b.get(b.path("r", "stream"), http.Header{"X-User": {"ann"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}})
	if answer.StatusCode != 400 || answer.Header.Get("Sec-WebSocket-Version") != "13" || !strings.Contains(text, `"code":"invalid_request"`) {
		t.Errorf("handshake without a version: %d %v %s", answer.StatusCode, answer.Header, text)
	}
	// After a reader has left, another one is admitted.
	busy.CloseNow()
	b.diary.await(t, event.StreamClosed, 1)
	deadline := time.Now().Add(patience)
	for {
		conn, answer, err := b.dial("r", "", as("ann"))
		if err == nil {
			b.want(conn, hello)
			break
		}
		if answer == nil || answer.StatusCode != 429 || time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// Pages of the same host may connect.
func TestSameOrigin(t *testing.T) {
	b := newBench(t)
	finished(b, "r")
	conn, _, err := b.dial("r", "", http.Header{"X-User": {"ann"}, "Origin": {b.url()}})
	if err != nil {
		t.Fatal(err)
	}
	b.want(conn, hello)
}

// A log that cannot be read ends the stream with 1011 and the seq to resume from.
func TestLogFails(t *testing.T) {
	b := newBench(t)
	r := b.add("r")
	r.print("hello")
	conn := b.open("r", "")
	b.want(conn, hello)
	r.change(func() { r.fail = errors.New("disk on fire") })
	b.wantClose(conn, websocket.StatusInternalError, "resume with from_seq=2")
}

// At shutdown open streams get 1001 and new ones 503, even if a reader does not read.
func TestShutdown(t *testing.T) {
	onLine(t, func(*Options) {}, func(t *testing.T, b *bench, l *linetest.Line) {
		r := b.add("r")
		r.print("hello")
		stuck := l.Dial()
		defer stuck.Close()
		askStream(stuck, b, "r")
		answered(t, stuck)
		conn := b.open("r", "")
		b.want(conn, hello)
		flood(r, 20)
		b.diary.await(t, event.StreamOpened, 2)
		done := make(chan error, 1)
		begun := time.Now()
		go func() { done <- b.door.Close() }()
		_, closed := b.drain(conn)
		if closed.Code != websocket.StatusGoingAway || !strings.Contains(closed.Reason, "resume with from_seq=") {
			t.Errorf("close %v", closed)
		}
		if err := <-done; err != nil || time.Since(begun) > 2*closeTime {
			t.Errorf("a reader who does not read holds up the end for %v, %v", time.Since(begun), err)
		}
		if err := b.door.Close(); err != nil {
			t.Error(err)
		}
		_, answer, err := b.dial("r", "", as("ann"))
		if err == nil || answer.StatusCode != 503 {
			t.Errorf("after the end: %v, %+v", err, answer)
		}
	})
}

// flood appends n frames of the largest size to a run.
func flood(r *run, n int) {
	text := strings.Repeat("x", belljar.MaxFrameBytes-1) + "\n"
	for range n {
		r.print(text)
	}
}

// rawSocket opens a stream on a connection that the test does not read yet.
func rawSocket(t *testing.T, b *bench, id string) *net.TCPConn {
	t.Helper()
	conn := b.tcp()
	askStream(conn, b, id)
	return conn
}

// askStream sends a request for an upgrade.
func askStream(conn net.Conn, b *bench, id string) {
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nX-User: ann\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", b.path(id, "stream"))
}

// answered reads the answer to an upgrade.
func answered(t *testing.T, conn net.Conn) *bufio.Reader {
	t.Helper()
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("answer %+v, %v", answer, err)
	}
	return in
}

// The server drops a reader that reads nothing, and sends the seq to resume from. The run and other readers are not delayed. The
// frames before and after the resume are the whole log.
func TestSlowReader(t *testing.T) {
	onLine(t, func(o *Options) { o.WriteTimeout = 3 * time.Second }, func(t *testing.T, b *bench, l *linetest.Line) {
		slow := l.Dial()
		defer slow.Close()
		slowReader(t, b, slow)
	})
}

func slowReader(t *testing.T, b *bench, slow net.Conn) {
	r := b.add("r")
	askStream(slow, b, "r")
	in := answered(t, slow)
	b.diary.await(t, event.StreamOpened, 1)
	fast := b.open("r", "")
	got := make(chan int, 1)
	go func() {
		frames, _ := b.drain(fast)
		got <- len(frames)
	}()
	const frames = 20
	flood(r, frames)
	b.diary.await(t, event.StreamDropped, 1)

	// Now the reader reads, within its grace: whole frames in order, then the close.
	var next uint64 = 1
	for {
		op, payload := readFrame(t, in)
		if op == 8 {
			code, reason := uint(payload[0])<<8|uint(payload[1]), string(payload[2:])
			if code != 1013 || reason != fmt.Sprintf("slow reader, resume with from_seq=%d", next) {
				t.Errorf("close %d %q after frame %d", code, reason, next-1)
			}
			break
		}
		if op == 9 {
			continue
		}
		var f belljar.Frame
		if err := f.UnmarshalJSON(payload); err != nil || f.Seq != next {
			t.Fatalf("frame %d: %v, want %d", f.Seq, err, next)
		}
		next++
	}
	if next > frames {
		t.Errorf("he was given all %d frames, so he was not slow", next-1)
	}
	slow.Close()
	r.end()
	if n := <-got; n != frames+1 {
		t.Errorf("the other reader got %d frames, want %d", n, frames+1)
	}
	rest, closed := b.drain(b.open("r", fmt.Sprintf("?from_seq=%d", next)))
	if len(rest) != frames+1-int(next-1) || rest[0].Seq != next {
		t.Errorf("resumed with %d frames from %d, close %v", len(rest), rest[0].Seq, closed)
	}
	if reasons := b.diary.reasons(event.StreamDropped); len(reasons) != 1 || reasons[0] != "slow" {
		t.Errorf("dropped %v", reasons)
	}
}

// readFrame reads one unmasked WebSocket frame.
func readFrame(t *testing.T, in *bufio.Reader) (op byte, payload []byte) {
	t.Helper()
	read := func(n int) []byte {
		b := make([]byte, n)
		if _, err := readFull(in, b); err != nil {
			t.Fatalf("read: %v", err)
		}
		return b
	}
	head := read(2)
	n := int(head[1])
	switch n {
	case 126:
		b := read(2)
		n = int(b[0])<<8 | int(b[1])
	case 127:
		b := read(8)
		n = 0
		for _, c := range b {
			n = n<<8 | int(c)
		}
	}
	return head[0] & 0xf, read(n)
}

func readFull(in *bufio.Reader, b []byte) (int, error) {
	for n := 0; n < len(b); {
		m, err := in.Read(b[n:])
		n += m
		if err != nil {
			return n, err
		}
	}
	return len(b), nil
}

// A reader whose credentials are revoked gets that as the reason. It does not count as a failure of the log.
func TestRevoked(t *testing.T) {
	var uses api.Uses
	var logged bytes.Buffer
	b := newBench(t, func(o *Options) {
		o.Auth, o.Logger = revocable{&uses}, slog.New(slog.NewTextHandler(&logged, nil))
	})
	b.add("r").print("hello")
	conn := b.open("r", "")
	b.want(conn, hello)
	uses.End("ann")
	b.wantClose(conn, closeUnauthorized, "no longer valid")
	b.diary.await(t, event.StreamClosed, 1)
	if reasons := b.diary.reasons(event.StreamClosed); reasons[0] != causeRevoked || logged.Len() > 0 {
		t.Errorf("%v, logged: %s", reasons, &logged)
	}
}
