package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/program"
)

// TestProxyDropsUpgrade opens a terminal through a proxy without WebSocket support: the error explains how to fix it.
func TestProxyDropsUpgrade(t *testing.T) {
	program.NeedNative(t)
	serveHere(t)
	to, err := url.Parse(os.Getenv("BELLJAR_SERVER"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Del("Upgrade")
		r.Out.Header.Del("Connection")
	}})
	defer proxy.Close()
	made := start(t, "session", "create")
	id, err := made.out.ReadString('\n')
	if err != nil || made.ended(t) != 0 {
		t.Fatalf("%v: %s", err, made.stderr.String())
	}
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, proxy.URL+"/api/v1/sandbox/sessions/"+strings.TrimSpace(id)+"/terminals?cols=80", nil)
	if err != nil {
		t.Fatal(err)
	}
	ask.Header.Set("X-API-KEY", os.Getenv("BELLJAR_API_KEY"))
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "has no Upgrade header") {
		t.Errorf("%d %s, %v", answer.StatusCode, text, err)
	}
	shell := startWith(t, []string{"BELLJAR_SERVER=" + proxy.URL}, "session", "shell", strings.TrimSpace(id), "--", "true")
	if status := shell.ended(t); status != 125 || !strings.Contains(shell.stderr.String(), "a proxy in front of the server must pass Upgrade and Connection on") {
		t.Errorf("status %d, %s", status, shell.stderr.String())
	}
}

// TestInterpreterInterrupted: Ctrl-C during the start of the interpreter ends belljar repl, and the session that it made.
func TestInterpreterInterrupted(t *testing.T) {
	children, ended := make(chan *child, 1), make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch path := strings.TrimPrefix(r.URL.Path, "/api/v1/sandbox/sessions"); {
		case r.Method == http.MethodDelete:
			ended <- path
		case path == "":
			fmt.Fprint(w, `{"session_id": "made"}`)
		default:
			io.Copy(io.Discard, r.Body)
			if c := <-children; c.Process.Signal(os.Interrupt) != nil {
				t.Error("cannot interrupt")
			}
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	c := startWith(t, []string{"BELLJAR_SERVER=" + server.URL}, "repl")
	children <- c
	if status := c.ended(t); status != 130 || c.stderr.Len() > 0 {
		t.Errorf("status %d\n%s", status, c.stderr.String())
	}
	select {
	case got := <-ended:
		if got != "/made" {
			t.Errorf("ended %q", got)
		}
	default:
		t.Error("the session is left")
	}
}

// TestRetries: a request that is tried again twice is reported once, with how long that takes and the name of the flag.
func TestRetries(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":{"code":"runtime_unavailable","message":"resources.memory_mb cannot be enforced here","details":{"field":"resources.memory_mb"}}}`)
	}))
	defer server.Close()
	made := startWith(t, []string{"BELLJAR_SERVER=" + server.URL}, "session", "create", "--memory", "64m")
	status, output := made.ended(t), made.stderr.String()
	if status != 125 || strings.Count(output, "trying again") != 1 || !strings.HasPrefix(output, "belljar: --memory cannot be enforced here; trying again for 2 s\n") {
		t.Errorf("status %d, %s", status, output)
	}
}

// TestNonsenseEngine: an engine sends unsolicited responses. belljar prints one error line, and hints.
func TestNonsenseEngine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				const answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
				for buf := make([]byte, 4096); ; {
					if _, err := conn.Read(buf); err != nil {
						return
					}
					io.WriteString(conn, answer+answer+"nonsense")
				}
			}()
		}
	}()
	c := startWith(t, []string{"DOCKER_HOST=tcp://" + l.Addr().String()}, "run", "--runtime", "docker", "--", "true")
	if status := c.ended(t); status != 125 {
		t.Errorf("status %d", status)
	}
	if !strings.HasPrefix(c.stderr.String(), "belljar: ") {
		t.Errorf("printed %q", c.stderr.String())
	}
	for line := range strings.Lines(c.stderr.String()) {
		if !strings.HasPrefix(line, "belljar: ") && !strings.HasPrefix(line, "hint: ") {
			t.Errorf("printed %q", line)
		}
	}
}

// TestWrongScheme: the wrong scheme fails immediately.
func TestWrongScheme(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	c := start(t, "--server", strings.Replace(plain.URL, "http:", "https:", 1), "ps")
	if status := c.ended(t); status != 125 || !strings.Contains(c.stderr.String(), "\nhint: use "+plain.URL+"\n") {
		t.Errorf("status %d, %s", status, c.stderr.String())
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	c = start(t, "--server", strings.Replace(secure.URL, "https:", "http:", 1), "ps")
	if status := c.ended(t); status != 125 || !strings.Contains(c.stderr.String(), "\nhint: use "+secure.URL+"\n") {
		t.Errorf("status %d, %s", status, c.stderr.String())
	}
}

// TestManySessions lists more sessions than one page of a server has.
func TestManySessions(t *testing.T) {
	const total = 450
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		if limit > belljar.MaxPage {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		page := belljar.SessionPage{Items: []belljar.Session{}, Total: total, Limit: limit, Offset: offset}
		for i := offset; i < min(offset+limit, total); i++ {
			page.Items = append(page.Items, belljar.Session{ID: fmt.Sprintf("session-%03d", i)})
		}
		page.HasMore = offset+len(page.Items) < total
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(page) // the client reports an answer that is cut
	}))
	defer server.Close()
	for limit, more := range map[int]string{201: "belljar: 201 of 450 sessions; --limit shows more\n", 450: "", 1000: ""} {
		c := start(t, "--server", server.URL, "session", "ls", "-q", "--limit", strconv.Itoa(limit))
		out, err := io.ReadAll(c.out)
		if err != nil {
			t.Fatal(err)
		}
		ids := strings.Fields(string(out))
		if status := c.ended(t); status != 0 || len(ids) != min(limit, total) || c.stderr.String() != more {
			t.Errorf("--limit %d: %d sessions, status %d, %s", limit, len(ids), status, c.stderr.String())
			continue
		}
		if last := ids[len(ids)-1]; last != fmt.Sprintf("session-%03d", len(ids)-1) {
			t.Errorf("--limit %d ends with %s", limit, last)
		}
	}
}
