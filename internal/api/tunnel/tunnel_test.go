//go:build linux

package tunnel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/tunnel"
	"github.com/belljar/belljar/test/apitest"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// patience limits every wait of a test.
const patience = 2 * time.Minute

// bench is the door over the real service, whose sandboxes' ports are those of this machine.
type bench struct {
	t       *testing.T
	url     string
	door    *tunnel.Door
	client  *client.Client
	session string
	uses    api.Uses
}

// Authenticate returns a caller whose credentials can be revoked.
func (b *bench) Authenticate(r *http.Request) (belljar.Caller, error) {
	caller, err := apitest.Callers().Authenticate(r)
	b.uses.Note(r.Context(), b.uses.Revoked(), caller.ID)
	return caller, err
}

func newBench(t *testing.T) *bench {
	t.Helper()
	w := apitest.NewWorld(t, nil)
	b := &bench{t: t}
	door, err := tunnel.New(tunnel.Options{
		Engine: w.Service, Auth: b,
		OriginAllowed: func(r *http.Request) bool { return r.Header.Get("Origin") != "https://evil.example" },
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	door.Register(mux)
	edge, err := api.NewEdge(api.EdgeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(edge.Wrap(mux))
	t.Cleanup(server.Close)
	t.Cleanup(func() { door.Close() })
	s, err := w.Service.As(apitest.Callers()["alice"]).Sessions().Create(t.Context(), belljar.SessionRequest{
		SessionSpec: belljar.SessionSpec{SpecVersion: belljar.SpecVersion, BaseImage: "host"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{URL: server.URL, APIKey: "alice", Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	b.url, b.door, b.client, b.session = server.URL, door, c, s.ID
	return b
}

func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// listen serves connections at a port of this machine until the test ends.
func (b *bench) listen(serve func(*net.TCPConn)) int {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c.(*net.TCPConn))
		}
	}()
	b.t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().(*net.TCPAddr).Port
}

func echo(c *net.TCPConn) {
	defer c.Close()
	b, _ := io.ReadAll(c)
	_, _ = c.Write(b)
}

// Bytes and ends of file go both ways.
func TestEcho(t *testing.T) {
	b := newBench(t)
	port := b.listen(echo)
	c, err := b.client.Ports().Dial(b.context(), b.session, port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text := bytes.Repeat([]byte("0123456789"), 200_000)
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(text)
		sent <- errors.Join(err, c.CloseWrite())
	}()
	got, err := io.ReadAll(c)
	if err := errors.Join(err, <-sent); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("wrote after the end of file")
	}
}

// A program's reset resets the client's connection, and a client that leaves resets the program's.
func TestReset(t *testing.T) {
	b := newBench(t)
	port := b.listen(func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.SetLinger(0)
		c.Close()
	})
	c, err := b.client.Ports().Dial(b.context(), b.session, port)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("client: %v", err)
	}
	_ = c.Close()

	for name, end := range map[string]func(belljar.PortConn) error{"abort": belljar.PortConn.Abort, "close": belljar.PortConn.Close} {
		seen := make(chan error, 1)
		port := b.listen(func(c *net.TCPConn) {
			_, err := io.ReadAll(c)
			seen <- err
			c.Close()
		})
		c, err := b.client.Ports().Dial(b.context(), b.session, port)
		if err != nil {
			t.Fatal(err)
		}
		_ = end(c)
		if err := <-seen; (err == nil) != (name == "close") {
			t.Errorf("%s: the program saw %v", name, err)
		}
	}
}

func TestRefused(t *testing.T) {
	b := newBench(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	port := closed.Addr().(*net.TCPAddr).Port
	for name, tt := range map[string]struct {
		key, session, port string
		code               websocket.StatusCode
		want               belljar.Code
	}{
		"no listener":     {"alice", b.session, strconv.Itoa(port), 4004, belljar.CodeNotFound},
		"no session":      {"alice", belljar.NewID(), "80", 4004, belljar.CodeNotFound},
		"another user's":  {"bob", b.session, strconv.Itoa(port), 4004, belljar.CodeNotFound},
		"unknown caller":  {"", b.session, "80", 4001, belljar.CodeUnauthorized},
		"not a number":    {"alice", b.session, "http", 1008, belljar.CodeInvalidRequest},
		"too large":       {"alice", b.session, "65536", 1008, belljar.CodeInvalidRequest},
		"unknown setting": {"alice", b.session, "80/tunnel?udp=1&x=", 1008, belljar.CodeInvalidRequest},
	} {
		path, query, _ := strings.Cut(tt.port, "/tunnel?")
		ws, _, err := websocket.Dial(b.context(), b.url+api.Prefix+"/sessions/"+tt.session+"/ports/"+path+"/tunnel?"+query, &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {tt.key}}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, raw, err := ws.Read(b.context())
		var m struct {
			Type string
			Code belljar.Code
		}
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		if err != nil || m.Type != "error" || m.Code != tt.want {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
		if _, _, err = ws.Read(b.context()); websocket.CloseStatus(err) != tt.code {
			t.Errorf("%s: %v", name, err)
		}
		ws.CloseNow()
	}
	for key, status := range map[string]int{"alice": 400, "": 401} {
		r, err := http.NewRequest(http.MethodGet, b.url+api.Prefix+"/sessions/"+b.session+"/ports/80/tunnel", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-API-KEY", key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("without an upgrade, %q: %d", key, resp.StatusCode)
		}
		// A malformed handshake gets the API's envelope, too.
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		if resp, err = http.DefaultClient.Do(r); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 400 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
			t.Errorf("malformed handshake, %q: %d %v", key, resp.StatusCode, resp.Header)
		}
	}
	_, resp, err := websocket.Dial(b.context(), b.url+api.Prefix+"/sessions/"+b.session+"/ports/80/tunnel", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://evil.example"}}})
	if err == nil || resp.StatusCode != 403 {
		t.Errorf("foreign page: %v", err)
	}
	_, err = b.client.Ports().Dial(b.context(), b.session, port)
	if belljar.CodeOf(err) != belljar.CodeNotFound || belljar.HintOf(err) == "" {
		t.Errorf("client: %v", err)
	}
}

// Only bytes and one eof are valid messages.
func TestMessages(t *testing.T) {
	b := newBench(t)
	port := b.listen(func(c *net.TCPConn) { defer c.Close(); _, _ = io.Copy(io.Discard, c); _, _ = c.Read(make([]byte, 1)) })
	for name, messages := range map[string][]string{
		"not JSON":     {"hello"},
		"another type": {`{"type":"ping"}`},
		"long":         {`{"type":"eof","x":"` + strings.Repeat("x", 5000) + `"}`},
	} {
		ws, _, err := websocket.Dial(b.context(), b.url+api.Prefix+"/sessions/"+b.session+"/ports/"+strconv.Itoa(port)+"/tunnel", &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {"alice"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, raw, err := ws.Read(b.context()); err != nil || !bytes.Contains(raw, []byte(`"type":"open"`)) {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
		for _, m := range messages {
			if err := ws.Write(b.context(), websocket.MessageText, []byte(m)); err != nil {
				t.Fatal(err)
			}
		}
		for err == nil {
			_, _, err = ws.Read(b.context())
		}
		if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("%s: %v", name, err)
		}
		ws.CloseNow()
	}
}

// The end of the session, or of the server, ends a tunnel with its reason.
func TestEnds(t *testing.T) {
	b := newBench(t)
	port := b.listen(func(c *net.TCPConn) { defer c.Close(); _, _ = io.Copy(io.Discard, c) })
	c, err := b.client.Ports().Dial(b.context(), b.session, port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go b.door.Close()
	if _, err := c.Read(make([]byte, 1)); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
		t.Errorf("shutdown: %v", err)
	}
	if _, err := b.client.Ports().Dial(b.context(), b.session, port); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
		t.Errorf("after it: %v", err)
	}
}

// A client whose credentials are revoked gets that as the reason, and the program's connection is
// reset.
func TestRevoked(t *testing.T) {
	b := newBench(t)
	ended := make(chan error, 1)
	port := b.listen(func(c *net.TCPConn) { defer c.Close(); _, err := io.Copy(io.Discard, c); ended <- err })
	ws, _, err := websocket.Dial(b.context(), b.url+api.Prefix+"/sessions/"+b.session+"/ports/"+strconv.Itoa(port)+"/tunnel", &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {"alice"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	for _, want := range []string{`"type":"open"`, `"code":"unauthorized"`} {
		if _, raw, err := ws.Read(b.context()); err != nil || !bytes.Contains(raw, []byte(want)) {
			t.Errorf("%s, %v; want %s", raw, err, want)
		}
		b.uses.End("alice")
	}
	if _, _, err := ws.Read(b.context()); websocket.CloseStatus(err) != 4001 {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
}
