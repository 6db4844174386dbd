//go:build linux

package e2e

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// link returns the status and the body of a link that a browser opens, without a key.
func (s *server) link(path string) (int, string) {
	s.t.Helper()
	resp, err := http.Get(s.URL + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// ticket returns path with a ticket for what.
func (s *server) ticket(path, what string) string {
	s.t.Helper()
	status, answer := s.ask(http.MethodPost, api+"/tickets", map[string]any{"path": what})
	token, _ := answer["token"].(string)
	if status != http.StatusOK || token == "" {
		s.t.Fatalf("a ticket for %s: %d %v", what, status, answer)
	}
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return path + separator + "token=" + url.QueryEscape(token)
}

// TestDownloadLinks opens every download by a link with a ticket. The ticket works once, and for no other download.
func TestDownloadLinks(t *testing.T) {
	s := serve(t, t.TempDir(), "--set", "end_sessions=true")
	_, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host"})
	id, _ := session["session_id"].(string)
	if id == "" {
		id, _ = session["id"].(string)
	}
	_, run := s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{
		"spec_version": "1.1", "session_id": id, "command": []string{"sh", "-c", `echo said; mkdir -p "a b"; echo one > "a b/é%2F.txt"; echo two > two.txt`},
		"capture_patterns": []string{"**"},
	})
	if run["phase"] != "completed" {
		t.Fatalf("%v", run)
	}
	at, of := api+"/sessions/"+id+"/fs/", api+"/runs/"+run["id"].(string)
	raw := at + "raw?path=" + url.QueryEscape("a b/é%2F.txt")
	artifact := of + "/artifacts/a%20b/%C3%A9%252F.txt"
	all := map[string]string{raw: "one\n", artifact: "one\n", of + "/artifacts/two.txt": "two\n", at + "archive?path=.&format=tar": "two\n", of + "/logs?stream=stdout": "said\n"}
	for path, want := range all {
		open := s.ticket(path, path)
		if status, body := s.link(open); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.200q", path, status, body)
		}
		if status, body := s.link(open); status != http.StatusUnauthorized || strings.Contains(body, want) {
			t.Errorf("%s, replayed: %d %.200q", path, status, body)
		}
		if status, _ := s.link(path); status != http.StatusUnauthorized {
			t.Errorf("%s without a ticket: %d", path, status)
		}
		for other := range all {
			if other != path {
				if status, body := s.link(s.ticket(path, other)); status != http.StatusUnauthorized {
					t.Errorf("%s with a ticket for %s: %d %.200q", path, other, status, body)
				}
			}
		}
	}
	// A ticket for any stream, or for the path alone, opens no file.
	_, loose := s.ask(http.MethodPost, api+"/tickets", nil)
	if status, _ := s.link(raw + "&token=" + loose["token"].(string)); status != http.StatusUnauthorized {
		t.Errorf("a ticket for any stream: %d", status)
	}
	if status, _ := s.link(s.ticket(raw, at+"raw")); status != http.StatusUnauthorized {
		t.Errorf("a ticket without the query: %d", status)
	}
	// It opens no route that changes something, even for its path.
	for _, path := range []string{at + "raw?path=two.txt", of, api + "/me"} {
		for _, method := range []string{http.MethodPut, http.MethodGet, http.MethodDelete} {
			if method == http.MethodGet && path == at+"raw?path=two.txt" {
				continue
			}
			req, err := http.NewRequest(method, s.URL+s.ticket(path, path), strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, resp.StatusCode)
			}
		}
	}
	// Downloads are attachments, so that browsers run nothing.
	resp, err := http.Get(s.URL + s.ticket(artifact, artifact))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if h := resp.Header; !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") || h.Get("Content-Security-Policy") != "sandbox; default-src 'none'" {
		t.Errorf("%v", h)
	}
	// Another user's ticket finds nothing.
	_, made := s.ask(http.MethodPost, api+"/admin/tokens", map[string]any{"user_id": "carol"})
	status, hers := s.ask(http.MethodPost, api+"/tickets", map[string]any{"path": artifact}, "X-API-KEY: "+made["secret"].(string))
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, hers)
	}
	if status, body := s.link(artifact + "?token=" + hers["token"].(string)); status != http.StatusNotFound {
		t.Errorf("another user's ticket: %d %s", status, body)
	}
}

// TestForeignName is a page whose own name points at this server (DNS rebinding). For its browser the server has the page's origin, but
// the server still answers nothing without a credential, which the page does not have.
func TestForeignName(t *testing.T) {
	s := serve(t, t.TempDir())
	for _, path := range []string{
		api + "/me", api + "/runs", api + "/admin/tokens", api + "/runs/x/stream", api + "/runs/x/usage", api + "/sessions/x/fs/raw?path=x", "/v1/sessions", "/metrics",
		"/thread/get_session?thread_id=x", "/mcp",
	} {
		req, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "evil.example:8080"
		req.Header.Set("Origin", "http://evil.example:8080")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized && (path != "/mcp" || resp.StatusCode < 400) {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

// TestForeignPage is a page on another site, and one on another port of this host: it cannot read, open sockets, or frame.
func TestForeignPage(t *testing.T) {
	s := serve(t, t.TempDir())
	host, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, run := s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{"spec_version": "1.0", "base_image": "host", "command": []string{"true"}})
	id, _ := run["id"].(string)
	origins := []string{"https://evil.example", "http://" + host.Hostname() + ":1", "https://" + host.Host, "null", "http://localhost:" + host.Port()}
	for _, path := range []string{"/webui/", "/webui/assets/x.js", "/", "/docs", "/healthz", api + "/me", api + "/login", api + "/runs/" + id + "/logs", "/nowhere"} {
		for _, origin := range origins {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
				req, err := http.NewRequest(method, s.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Origin", origin)
				req.Header.Set("Accept", "text/html")
				if method == http.MethodOptions {
					req.Header.Set("Access-Control-Request-Method", "POST")
					req.Header.Set("Access-Control-Request-Headers", "authorization")
				} else {
					req.Header.Set("X-API-KEY", s.Key)
				}
				resp, err := http.DefaultTransport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				for name := range resp.Header {
					if strings.HasPrefix(name, "Access-Control-") || name == "Set-Cookie" {
						t.Errorf("%s %s for %s: %s", method, path, origin, name)
					}
				}
				if csp := resp.Header.Get("Content-Security-Policy"); !slices.Contains(resp.Header.Values("X-Frame-Options"), "DENY") || !strings.Contains(csp, "frame-ancestors 'none'") {
					t.Errorf("%s %s may be framed: %v", method, path, resp.Header)
				}
			}
		}
	}
	for _, origin := range append(origins, s.URL) {
		for _, path := range []string{api + "/runs/" + id + "/stream", api + "/terminals?session_id=x", api + "/sessions/x/ports/1/tunnel"} {
			req, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range map[string]string{
				"Origin": origin, "X-API-KEY": s.Key, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
			} {
				req.Header.Set(name, value)
			}
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if open := resp.StatusCode == http.StatusSwitchingProtocols; open != (origin == s.URL) {
				t.Errorf("%s opens %s: %d", origin, path, resp.StatusCode)
			}
		}
	}
}
