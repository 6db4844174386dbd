package terminal

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/linetest"
	"github.com/belljar/belljar/internal/api/socket"
	"github.com/belljar/belljar/internal/event"
)

func TestNew(t *testing.T) {
	origin := func(*http.Request) bool { return true }
	for name, opts := range map[string]Options{
		"no engine":    {Auth: headers{}, Secret: make([]byte, 32), OriginAllowed: origin},
		"no auth":      {Engine: &engine{}, Secret: make([]byte, 32), OriginAllowed: origin},
		"no origins":   {Engine: &engine{}, Auth: headers{}, Secret: make([]byte, 32)},
		"short secret": {Engine: &engine{}, Auth: headers{}, Secret: make([]byte, 31), OriginAllowed: origin},
	} {
		if _, err := New(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Foreign origins, callers over the rate limit and requests without an upgrade get an HTTP error.
func TestRefusedBefore(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Connect = func(r *http.Request) error {
			if api.CallerOf(r.Context()).ID == "bob" {
				return &belljar.Error{Code: belljar.CodeRateLimited, Message: "too many connections"}
			}
			return nil
		}
	})
	for name, c := range map[string]struct {
		header http.Header
		status int
	}{
		"foreign page": {http.Header{"X-User": {"ann"}, "Origin": {"https://evil.example"}}, 403},
		"rate":         {http.Header{"X-User": {"hasty"}}, 429},
		"connects":     {http.Header{"X-User": {"bob"}}, 429},
	} {
		_, answer, err := b.dial("/terminals?terminal_id=t1", c.header)
		if err == nil || answer == nil || answer.StatusCode != c.status {
			t.Errorf("%s: %v, %v", name, answer, err)
		}
	}
	resp, err := http.Get(b.server.URL + api.Prefix + "/terminals")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 || resp.Header.Get("Upgrade") != "websocket" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	r, err := http.NewRequest(http.MethodGet, b.server.URL+api.Prefix+"/terminals", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"X-User": {"ann"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
	if resp, err = http.DefaultClient.Do(r); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		t.Errorf("malformed handshake: %d %v", resp.StatusCode, resp.Header)
	}
	if err := b.door.Close(); err != nil {
		t.Fatal(err)
	}
	if _, answer, err := b.dial("/terminals", http.Header{"X-User": {"ann"}}); err == nil || answer.StatusCode != 503 {
		t.Errorf("closed: %v, %v", answer, err)
	}
}

// next reads a message.
func (b *bench) next(conn *websocket.Conn) map[string]any {
	b.t.Helper()
	_, raw, err := conn.Read(b.context())
	if err != nil {
		b.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		b.t.Fatal(err)
	}
	return m
}

// A connected client gets a new token before the old one expires, and the expiry does not end the connection.
func TestTokenIsRenewed(t *testing.T) {
	var mu sync.Mutex
	now := time.Unix(1_760_000_000, 0)
	b := newBench(t, func(o *Options) {
		o.TokenTTL = 100 * time.Millisecond
		o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	conn := b.open("/sessions/s1/terminals", "ann")
	first := b.next(conn)
	mu.Lock()
	now = now.Add(time.Hour)
	mu.Unlock()
	for {
		second := b.next(conn)
		if second["type"] != "session" || second["terminal_id"] != first["terminal_id"] {
			t.Fatal(second)
		}
		if second["session_id"] != first["session_id"] {
			break
		}
	}
	late := b.open("/terminals?session_id="+first["session_id"].(string), "ann")
	if m := b.next(late); m["type"] != "session_not_found" {
		t.Error(m)
	}
}

// sink records the names and reasons of events.
type sink struct {
	mu   sync.Mutex
	seen map[string]int
}

func (s *sink) Record(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[e.Name+" "+e.Reason]++
}

// Failed attaches are counted by reason.
func TestFailedAttachesAreCounted(t *testing.T) {
	s := &sink{seen: map[string]int{}}
	b := newBench(t, func(o *Options) { o.Events = s })
	for path, want := range map[string]string{
		"/terminals?session_id=nonsense": "not_found", "/terminals?terminal_id=none": "not_found", "/terminals": "invalid_request",
		"/sessions/none/terminals": "not_found",
	} {
		conn := b.open(path, "ann")
		if m := b.next(conn); m["type"] != "session_not_found" && m["code"] != want {
			t.Errorf("%s: %v", path, m)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen["terminal.refused not_found"] != 3 || s.seen["terminal.refused invalid_request"] != 1 || len(s.seen) != 2 {
		t.Errorf("%v", s.seen)
	}
}

// Close ends all connections, even if a client does not read.
func TestClose(t *testing.T) {
	onLine(t, func(*Options) {}, func(t *testing.T, b *bench, _ *linetest.Line) {
		conn := b.open("/sessions/s1/terminals", "ann")
		b.next(conn)
		deaf := b.open("/sessions/s1/terminals", "ann")
		b.next(deaf)
		b.pty("t2").say(belljar.TerminalEvent{Kind: belljar.TerminalOutput, Data: bytes.Repeat([]byte("x"), 256<<10)})
		closed := make(chan error, 1)
		begun := time.Now()
		go func() { closed <- b.door.Close() }()
		_, _, err := conn.Read(b.context())
		if websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Error(err)
		}
		if err := <-closed; err != nil || time.Since(begun) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// A client whose credentials are revoked gets that as the reason, and can type no more.
func TestRevoked(t *testing.T) {
	var uses api.Uses
	b := newBench(t, func(o *Options) { o.Auth = revocable{&uses} })
	conn := b.open("/sessions/s1/terminals", "ann")
	b.next(conn)
	other := b.open("/sessions/s2/terminals", "bob")
	b.next(other)
	uses.End("ann")
	if m := b.next(conn); m["type"] != "error" || m["code"] != "unauthorized" {
		t.Error(m)
	}
	if _, _, err := conn.Read(b.context()); websocket.CloseStatus(err) != socket.CloseUnauthorized {
		t.Error(err)
	}
	if err := other.Write(b.context(), websocket.MessageBinary, []byte("x")); err != nil {
		t.Error(err)
	}
	p := b.pty("t2")
	p.await(t, "typed", func() bool { return p.typed == "x" })
}

// While a program does not read its input, the client waits and is not considered dead. Its disconnect is still
// detected.
func TestStuckProgram(t *testing.T) {
	onLine(t, func(o *Options) { o.PingEvery = time.Second }, func(t *testing.T, b *bench, _ *linetest.Line) {
		pings := make(chan struct{}, 100)
		var mute atomic.Bool
		conn, _, err := websocket.Dial(b.context(), b.at("/sessions/s1/terminals"), &websocket.DialOptions{
			HTTPClient: b.client, HTTPHeader: http.Header{"X-User": {"ann"}}, OnPingReceived: func(context.Context, []byte) bool {
				if mute.Load() {
					pings <- struct{}{}
				}
				return !mute.Load()
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		b.next(conn)
		p := b.pty("t1")
		p.change(func() { p.stuck = true })
		typed := make(chan struct{})
		go func() { // the write blocks: the line has no buffer
			defer close(typed)
			for range 3 {
				_ = conn.Write(b.context(), websocket.MessageBinary, []byte("x"))
			}
		}()
		conn.CloseRead(b.context())
		mute.Store(true) // no pong
		for range 3 {    // the server repeats an unanswered ping
			<-pings
		}
		if got := p.snapshot().Attached; got != 1 {
			t.Fatalf("%d are attached", got)
		}
		_ = conn.CloseNow()
		<-typed
		p.await(t, "left", func() bool { return p.state.Attached == 0 })
	})
}

// A client without a pong is disconnected.
func TestSilentClient(t *testing.T) {
	onLine(t, func(o *Options) { o.PingEvery = time.Second }, func(t *testing.T, b *bench, l *linetest.Line) {
		raw := l.Dial()
		defer raw.Close()
		_, err := io.WriteString(raw, "GET "+api.Prefix+"/sessions/s1/terminals HTTP/1.1\r\nHost: x\r\nX-User: ann\r\nConnection: Upgrade\r\n"+
			"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		// The client reads everything and sends nothing until the connection ends.
		received, err := io.ReadAll(raw)
		if err != nil || !strings.HasPrefix(string(received), "HTTP/1.1 101") || !bytes.Contains(received, []byte("\x89")) {
			t.Fatalf("%q %v", received, err)
		}
		p := b.pty("t1")
		p.await(t, "given up", func() bool { return p.view != nil && p.state.Attached == 0 })
	})
}

// A message of more than 2 MiB ends the connection.
func TestLongMessage(t *testing.T) {
	b := newBench(t)
	conn := b.open("/sessions/s1/terminals", "ann")
	b.next(conn)
	if err := conn.Write(b.context(), websocket.MessageBinary, make([]byte, maxMessage-1)); err != nil {
		t.Fatal(err)
	}
	p := b.pty("t1")
	p.await(t, "typed", func() bool { return len(p.typed) == maxMessage-1 })
	go func() { _ = conn.Write(b.context(), websocket.MessageBinary, make([]byte, maxMessage+1)) }()
	for {
		if _, _, err := conn.Read(b.context()); err != nil {
			if websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
				t.Error(err)
			}
			return
		}
	}
}

// cut is a terminal that prints pieces.
type cut struct {
	belljar.Attachment
	pieces [][]byte
}

func (c *cut) Next(context.Context) (belljar.TerminalEvent, error) {
	if len(c.pieces) == 0 {
		return belljar.TerminalEvent{Kind: belljar.TerminalExit}, nil
	}
	e := belljar.TerminalEvent{Kind: belljar.TerminalOutput, Data: c.pieces[0]}
	c.pieces = c.pieces[1:]
	return e, nil
}

// FuzzSplit cuts bytes anywhere: the output equals the input, and text is never cut within a character.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("grüße 🐌\xff\xe2\x82"), uint8(1))
	f.Add([]byte("\xf0\x9f\x90"), uint8(2))
	f.Add(bytes.Repeat([]byte{0x1b, 0}, 50), uint8(7))
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		c := &cut{pieces: slices.Collect(slices.Chunk(in, int(step)%16+1))}
		var out []byte
		s := &socket.Screen{Attachment: c, Dialect: dialect{}}
		s.Follow(t.Context(), func(m any) error {
			raw, err := socket.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			var back text
			if err := json.Unmarshal(raw, &back); err != nil {
				t.Fatal(err)
			}
			data := []byte(back.Data)
			if back.Encoding == "base64" {
				if data, err = base64.StdEncoding.DecodeString(back.Data); err != nil {
					t.Fatal(err)
				}
			} else if sent := m.(text).Data; !utf8.ValidString(sent) {
				t.Fatalf("%q is no text", sent)
			}
			out = append(out, data...)
			return nil
		})
		if !bytes.Equal(in, out) {
			t.Fatalf("%q became %q", in, out)
		}
	})
}

// FuzzDecode decodes arbitrary messages.
func FuzzDecode(f *testing.F) {
	for _, m := range []string{
		`{"type":"input","data":"x"}`, `{"type":"input","data":"/w==","encoding":"base64"}`, `{"type":"resize","cols":80,"rows":24}`,
		`{"type":"ping"}`, `{"type":"input","data":"\ud83d\ude00"}`, `{"type":"resize","cols":1e99}`, `[]`, `null`, `{"type":"input","data":"\ud800"}`,
	} {
		f.Add([]byte(m))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		in, err := dialect{}.Decode(true, raw)
		if err != nil {
			var v socket.Verdict
			if !errors.As(err, &v) || v.Code == 0 || v.Message == nil {
				t.Fatalf("%v is no verdict", err)
			}
			return
		}
		if in.Type != "input" && in.Type != "resize" && in.Type != "ping" {
			t.Fatalf("a message of type %q", in.Type)
		}
	})
}
