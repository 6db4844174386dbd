//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// site is a session in which testdata/ports.py serves port 3000.
type site struct {
	*server
	client *client.Client
	id     string
}

func newSite(t *testing.T, args ...string) *site {
	t.Helper()
	s := serve(t, t.TempDir(), append([]string{"--set", "rate_limit_per_min=0", "--set", "end_sessions=true"}, args...)...)
	w := &site{server: s, client: s.client()}
	w.id = s.session(w.client, nil).ID
	program, err := os.ReadFile("testdata/ports.py")
	if err != nil {
		t.Fatal(err)
	}
	run, err := w.client.Runs().Start(t.Context(), belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: w.id, Command: []string{"python3", "-u", "-c", string(program)}, TimeoutSec: patience.Seconds(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range w.client.Runs().Frames(t.Context(), run.ID, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == belljar.FrameStdout && bytes.Contains(f.Output, []byte("ready")) {
			return w
		}
	}
	t.Fatal("the program has ended")
	return nil
}

// browser sends requests to a preview, whose name leads to the server. It keeps no cookies: the token is given.
func (w *site) browser(p belljar.Preview) *http.Client {
	to, err := url.Parse(w.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, to.Host)
	}, DisableCompression: true}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     cookied{transport, p.Token},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type cookied struct {
	http.RoundTripper
	token string
}

func (c cookied) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.token != "" {
		r.Header.Add("Cookie", "mine=1; __Host-belljar-preview="+c.token)
	}
	return c.RoundTripper.RoundTrip(r)
}

// get returns the answer to a request, changed by change.
func (w *site) get(c *http.Client, url string, change func(*http.Request)) (*http.Response, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	resp, err := c.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(b)
}

// A program in a session is listed, and can be reached by belljar session forward: by many clients concurrently, with large
// answers, until the session ends.
func TestForward(t *testing.T) {
	w := newSite(t)
	list, err := w.client.Ports().List(t.Context(), w.id)
	if err != nil || len(list) != 1 || list[0].Port != 3000 || list[0].Address != "127.0.0.1" || list[0].Program != "python3" || list[0].PID == 0 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, port := range []int{53, 1080, 3001} { // the agent's own ports would be elsewhere
		if c, err := w.client.Ports().Dial(t.Context(), w.id, port); belljar.CodeOf(err) != belljar.CodeNotFound {
			t.Errorf("port %d: %v, %v", port, c, err)
		}
	}
	output := &lines{}
	cmd := exec.Command(built.Belljar, "session", "forward", w.id, "3000:0")
	cmd.Env = append(os.Environ(), "BELLJAR_SERVER="+w.URL, "BELLJAR_API_KEY="+w.Key)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 4096)
	n, _ := pipe.Read(first)
	ended := make(chan error, 1)
	go func() {
		_, _ = io.Copy(output, pipe)
		ended <- cmd.Wait()
	}()
	defer func() { _ = cmd.Process.Kill() }()
	address, _, ok := strings.Cut(strings.TrimPrefix(string(first[:n]), "belljar: "), " → port 3000 of "+w.id)
	if !ok {
		t.Fatalf("%q", first[:n])
	}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			resp, body := w.get(c, fmt.Sprintf("%s/%d", address, i), nil)
			if resp.StatusCode != 200 || !strings.Contains(body, fmt.Sprintf(`"path": "/%d"`, i)) {
				t.Errorf("%d: %s %s", i, resp.Status, body)
			}
		})
	}
	all.Wait()
	begun := time.Now()
	resp, err := http.Get(address + "/big")
	if err != nil {
		t.Fatal(err)
	}
	size, err := io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if err != nil || size != 100<<20 {
		t.Errorf("%d bytes, %v", size, err)
	}
	t.Logf("100 MiB through a forward in %v", time.Since(begun))
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	resp, err = http.Post(address+"/", "", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if sum := sha256.Sum256(body); string(got) != hex.EncodeToString(sum[:]) {
		t.Errorf("the program got something else: %s", got)
	}

	resp, err = http.Get(address + "/endless")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := w.client.Sessions().Delete(t.Context(), w.id); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("an answer that was cut off looks complete")
	}
	if err := <-ended; err == nil || !strings.Contains(output.String(), "has ended") {
		t.Errorf("forward: %v, %s", err, output)
	}
}

// Ctrl-C ends a forward without an error.
func TestForwardInterrupted(t *testing.T) {
	s := serve(t, t.TempDir(), "--set", "end_sessions=true")
	id := s.session(s.client(), nil).ID
	cmd := exec.Command(built.Belljar, "session", "forward", id, "3000:0")
	cmd.Env = append(os.Environ(), "BELLJAR_SERVER="+s.URL, "BELLJAR_API_KEY="+s.Key)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.Read(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(pipe)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, rest)
	}
}

func (w *site) preview(spec belljar.PreviewSpec) belljar.Preview {
	w.t.Helper()
	p, err := w.client.Ports().Preview(w.t.Context(), w.id, spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// A preview is visible with its token, and refused without it. Its host and the API's are separate.
func TestPreview(t *testing.T) {
	w := newSite(t, "--set", "preview_domain=preview.localhost", "--set", "allowed_origins=https://app.example")
	p := w.preview(belljar.PreviewSpec{Port: 3000})
	user, stranger := w.browser(p), w.browser(belljar.Preview{})
	if strings.Contains(p.Label, w.id) || len(p.Label) > 63 || !strings.HasPrefix(p.URL, "http://"+p.Label+".preview.localhost:") {
		t.Errorf("%+v", p)
	}
	for name, tt := range map[string]struct {
		client *http.Client
		url    string
		change func(*http.Request)
		status int
	}{
		"no token":       {stranger, p.URL, nil, 401},
		"wrong token":    {stranger, p.URL + "?belljar_token=x", nil, 401},
		"another label":  {user, strings.Replace(p.URL, p.Label, "aaaa", 1), nil, 401},
		"two labels":     {user, strings.Replace(p.URL, p.Label, "x."+p.Label, 1), nil, 401},
		"the domain":     {user, strings.Replace(p.URL, p.Label+".", "", 1) + "api/v1/sandbox/me", nil, 401},
		"API's path":     {user, p.URL + "api/v1/sandbox/me", nil, 200},
		"upper case":     {user, strings.Replace(p.URL, p.Label, strings.ToUpper(p.Label), 1), nil, 200},
		"final dot":      {user, strings.Replace(p.URL, "localhost:", "localhost.:", 1), nil, 200},
		"own page":       {user, p.URL, func(r *http.Request) { r.Header.Set("Origin", strings.TrimSuffix(p.URL, "/")) }, 200},
		"sibling's page": {user, p.URL, func(r *http.Request) { r.Header.Set("Origin", "http://other.preview.localhost") }, 401},
		"sibling's image": {user, p.URL, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "same-site")
			r.Header.Set("Sec-Fetch-Mode", "no-cors")
		}, 401},
		"link": {user, p.URL, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
		}, 200},
		"preflight": {stranger, p.URL, func(r *http.Request) {
			r.Method = "OPTIONS"
			r.Header.Set("Origin", "https://app.example")
			r.Header.Set("Access-Control-Request-Method", "POST")
		}, 401},
	} {
		resp, body := w.get(tt.client, tt.url, tt.change)
		if resp.StatusCode != tt.status || resp.Header.Get("X-Frame-Options") != "" || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %s %v %s", name, resp.Status, resp.Header, body)
		}
	}
	// A host name of another kind belongs to the API, whatever the path.
	resp, body := w.get(user, w.URL+"/api/v1/sandbox/me", func(r *http.Request) { r.Host = "preview.localhost.evil.example"; r.Header.Set("X-API-KEY", w.Key) })
	if resp.StatusCode != 200 || !strings.Contains(body, "user_id") {
		t.Errorf("the API: %s %s", resp.Status, body)
	}

	for given, want := range map[string]string{"": "/", "x/y?a=1&": "/x/y?a=1", "/evil.example/": "/evil.example/", "%2Fevil.example/?": "/%2Fevil.example/"} {
		path, query, _ := strings.Cut(given, "?")
		resp, _ = w.get(stranger, p.URL+path+"?"+query+"belljar_token="+p.Token, nil)
		cookie := resp.Header.Get("Set-Cookie")
		if resp.StatusCode != 303 || resp.Header.Get("Location") != want || !strings.HasPrefix(cookie, "__Host-belljar-preview="+p.Token+"; Path=/; Expires=") ||
			!strings.HasSuffix(cookie, "; HttpOnly; Secure; SameSite=Lax") {
			t.Errorf("%q: %s %v", given, resp.Status, resp.Header)
		}
	}
	w.seenByProgram(user, p)
	w.hostile(user, p)

	if err := w.client.Ports().Revoke(t.Context(), w.id, p.Label); err != nil {
		t.Fatal(err)
	}
	if resp, _ := w.get(user, p.URL, nil); resp.StatusCode != 401 {
		t.Errorf("revoked: %s", resp.Status)
	}
	if _, err := w.client.Ports().Preview(t.Context(), w.id, belljar.PreviewSpec{Port: 3000, Public: true}); belljar.CodeOf(err) != belljar.CodePolicyDenied || !strings.Contains(belljar.HintOf(err), "SANDBOX_PREVIEW_PUBLIC") {
		t.Errorf("public: %v", err)
	}
	closed := w.preview(belljar.PreviewSpec{Port: 3999})
	if resp, body := w.get(w.browser(closed), closed.URL, nil); resp.StatusCode != 502 || body != "No program listens on port 3999 of the session.\n" {
		t.Errorf("closed port: %s %s", resp.Status, body)
	}
	list, err := w.client.Ports().Previews(t.Context(), w.id)
	if err != nil || len(list) != 1 || list[0].Label != closed.Label || list[0].Token != "" || list[0].URL != closed.URL {
		t.Errorf("%+v, %v", list, err)
	}
	if err := w.client.Sessions().Delete(t.Context(), w.id); err != nil {
		t.Fatal(err)
	}
	if resp, _ := w.get(w.browser(closed), closed.URL, nil); resp.StatusCode != 401 {
		t.Errorf("after the session: %s", resp.Status)
	}
}

// seenByProgram checks the request that a program gets.
func (w *site) seenByProgram(user *http.Client, p belljar.Preview) {
	w.t.Helper()
	_, body := w.get(user, p.URL+"a%2Fb?x=1&y", func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer secret")
		r.Header.Set("X-API-KEY", w.Key)
		r.Header.Set("X-Belljar-Source", "secret")
		r.Header.Set("X-Forwarded-For", "203.0.113.1")
		r.Header.Set("X-Forwarded-Host", "evil.example")
		r.Header.Set("X-Own", "kept")
	})
	var got struct {
		Path    string
		Headers map[string]string
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		w.t.Fatal(err, body)
	}
	host := strings.TrimSuffix(strings.TrimPrefix(p.URL, "http://"), "/")
	want := map[string]string{"Host": host, "X-Forwarded-Host": host, "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Own": "kept", "Cookie": "mine=1"}
	for name, value := range want {
		if got.Headers[name] != value {
			w.t.Errorf("%s: %q, not %q", name, got.Headers[name], value)
		}
	}
	if strings.Contains(body, "secret") || strings.Contains(body, w.Key) || strings.Contains(body, p.Token) || got.Path != "/a%2Fb?x=1&y" {
		w.t.Errorf("the program saw %s", body)
	}
}

// hostile checks the answers of a hostile program.
func (w *site) hostile(user *http.Client, p belljar.Preview) {
	w.t.Helper()
	resp, _ := w.get(user, p.URL+"cookies", nil)
	if got := resp.Header.Values("Set-Cookie"); len(got) != 2 || got[0] != "good=1; Path=/x; HttpOnly" || got[1] != "two=2;Secure" {
		w.t.Errorf("cookies: %q", got)
	}
	if h := resp.Header; h.Get("Clear-Site-Data") != "" || h.Get("Alt-Svc") != "" {
		w.t.Errorf("%v", h)
	}
	if resp, body := w.get(user, p.URL+"early", nil); body != "late" || resp.Header.Get("Set-Cookie") != "" {
		w.t.Errorf("early: %v %s", resp.Header, body)
	}
	if resp, body := w.get(user, p.URL+"garbage", nil); resp.StatusCode != 502 || !strings.Contains(body, "did not answer") {
		w.t.Errorf("garbage: %s %s", resp.Status, body)
	}
}

// Many requests, large answers, streamed events and WebSockets pass a preview. Open ones end with it.
func TestPreviewStreams(t *testing.T) {
	w := newSite(t, "--set", "preview_domain=preview.localhost", "--set", "preview_public=true")
	p := w.preview(belljar.PreviewSpec{Port: 3000, Public: true, TTLSec: 600})
	if p.Token != "" || p.TokenURL != "" {
		t.Errorf("%+v", p)
	}
	user := w.browser(p)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			resp, body := w.get(user, fmt.Sprintf("%s%d", p.URL, i), nil)
			if resp.StatusCode != 200 || !strings.Contains(body, fmt.Sprintf(`"path": "/%d"`, i)) {
				t.Errorf("%d: %s %s", i, resp.Status, body)
			}
		})
	}
	all.Wait()
	begun := time.Now()
	resp, err := user.Get(p.URL + "big")
	if err != nil {
		t.Fatal(err)
	}
	size, err := io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if err != nil || size != 100<<20 {
		t.Errorf("%d bytes, %v", size, err)
	}
	t.Logf("100 MiB through a preview in %v", time.Since(begun))

	events, err := user.Get(p.URL + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	one := make([]byte, len("data: one\n\n"))
	if _, err := io.ReadFull(events.Body, one); err != nil || string(one) != "data: one\n\n" { // the second waits for /go
		t.Fatalf("%q, %v", one, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws, answer, err := websocket.Dial(ctx, p.URL+"ws", &websocket.DialOptions{HTTPClient: user})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if got := answer.Header.Get("Set-Cookie"); got != "upgraded=1" {
		t.Errorf("cookie of the WebSocket: %q", got)
	}
	if err := ws.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, got, err := ws.Read(ctx); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	endless, err := user.Get(p.URL + "endless")
	if err != nil {
		t.Fatal(err)
	}
	defer endless.Body.Close()
	if err := w.client.Ports().Revoke(t.Context(), w.id, p.Label); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.Read(ctx); err == nil {
		t.Error("the WebSocket survives its preview")
	}
	for name, body := range map[string]io.Reader{"events": events.Body, "answer": endless.Body} {
		if _, err := io.Copy(io.Discard, body); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
