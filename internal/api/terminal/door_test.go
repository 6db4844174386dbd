package terminal

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
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
	if err := b.door.Close(); err != nil {
		t.Fatal(err)
	}
	if _, answer, err := b.dial("/terminals", http.Header{"X-User": {"ann"}}); err == nil || answer.StatusCode != 503 {
		t.Errorf("closed: %v, %v", answer, err)
	}
}

// A token with any byte changed is invalid.
func TestTokenTampered(t *testing.T) {
	now := time.Unix(1_760_000_000, 0)
	tokens := newTokens([]byte(strings.Repeat("k", 32)), 30*time.Minute, func() time.Time { return now })
	token, expires, err := tokens.issue("ann", "s1", "t1")
	if err != nil || !expires.Equal(now.Add(30*time.Minute)) {
		t.Fatal(expires, err)
	}
	if c, err := tokens.read("ann", token); err != nil || c.Terminal != "t1" || c.Session != "s1" {
		t.Fatal(c, err)
	}
	for i := range len(token) {
		for bit := range 8 {
			bad := []byte(token)
			bad[i] ^= 1 << bit
			if _, err := tokens.read("ann", string(bad)); err == nil {
				t.Fatalf("byte %d, bit %d does not matter", i, bit)
			}
		}
		if _, err := tokens.read("ann", token[:i]); err == nil {
			t.Fatalf("%d bytes are enough", i)
		}
	}
	forge := func(change func(*claims)) string {
		c := claims{Audience: tokenAudience, Kind: tokenKind, User: "ann", Terminal: "t1", IssuedAt: now.Unix(), ExpiresAt: now.Unix() + 60}
		change(&c)
		out, err := tokens.sealer.Seal(c)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	other, _, _ := newTokens([]byte(strings.Repeat("l", 32)), time.Minute, time.Now).issue("ann", "s1", "t1")
	run, _ := api.NewSealer([]byte(strings.Repeat("k", 32)), "p1.", "belljar signed stream url, version 1").Seal(claims{})
	for name, bad := range map[string]string{
		"audience":   forge(func(c *claims) { c.Audience = "else" }),
		"kind":       forge(func(c *claims) { c.Kind = "chat" }),
		"user":       forge(func(c *claims) { c.User = "bob" }),
		"expired":    forge(func(c *claims) { c.ExpiresAt = now.Unix() }),
		"from later": forge(func(c *claims) { c.IssuedAt = now.Unix() + 61 }),
		"secret":     other, "purpose": run, "empty": "", "long": token + strings.Repeat("A", 4000), "appended": token + "A",
		"padded": token + "=", "line": token + "\n",
	} {
		if _, err := tokens.read("ann", bad); !errors.Is(err, errNoToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := tokens.read("ann", forge(func(*claims) {})); err != nil {
		t.Error("a good one: ", err)
	}
	now = now.Add(30 * time.Minute)
	if _, err := tokens.read("ann", token); err == nil {
		t.Error("it never expires")
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
		if err := <-closed; err != nil || time.Since(begun) > 2*shutdownGrace {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// While a program does not read its input, the client waits, is not considered dead, and its disconnect is detected.
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
		heard, err := io.ReadAll(raw)
		if err != nil || !strings.HasPrefix(string(heard), "HTTP/1.1 101") || !bytes.Contains(heard, []byte("\x89")) {
			t.Fatalf("%q %v", heard, err)
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

// FuzzSplit cuts bytes anywhere: the output equals the input, and text is never cut within a character.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("grüße 🐌\xff\xe2\x82"), uint8(1))
	f.Add([]byte("\xf0\x9f\x90"), uint8(2))
	f.Add(bytes.Repeat([]byte{0x1b, 0}, 50), uint8(7))
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		var s splitter
		var out []byte
		take := func(m text, ok bool) {
			if !ok {
				return
			}
			raw, err := encode(m)
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
			} else if !utf8.ValidString(m.Data) {
				t.Fatalf("%q is no text", m.Data)
			}
			out = append(out, data...)
		}
		for rest := in; len(rest) > 0; {
			n := min(int(step)%16+1, len(rest))
			take(s.next("output", rest[:n]))
			if len(s.held) > 3 {
				t.Fatalf("%d bytes are held", len(s.held))
			}
			rest = rest[n:]
		}
		take(s.flush("output"))
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
		in, err := decode(raw)
		if err != nil {
			var v verdict
			if !errors.As(err, &v) || v.code == 0 || v.message == nil {
				t.Fatalf("%v is no verdict", err)
			}
			return
		}
		switch in.Type {
		case typeInput:
			if in.Encoding != "base64" && string(in.bytes) != in.Data {
				t.Fatalf("%q became %q", in.Data, in.bytes)
			}
		case typeResize, typePing:
		default:
			t.Fatalf("a message of type %q", in.Type)
		}
	})
}
