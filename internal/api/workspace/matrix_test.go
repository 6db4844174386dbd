//go:build linux

package workspace_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	door "github.com/belljar/belljar/internal/api/workspace"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/workspace"
	"github.com/belljar/belljar/internal/workspace/sandbox"
	"github.com/belljar/belljar/test/apitest"
)

// refuses checks that a token finds nothing, and that the answer reveals no reason.
func (w *world) refuses(what, path string) {
	w.Helper()
	conn := w.socket(path)
	m, _ := w.next(conn)
	if len(m) != 1 || m["type"] != "session_not_found" {
		w.Errorf("%s: %v", what, m)
	}
	if _, code := w.next(conn); code != 4004 {
		w.Errorf("%s: closes with %d", what, code)
	}
}

// edgeCases is the matrix of edge cases, row by row, for terminals and chats.
func edgeCases(t *testing.T, s source) {
	w := newWorld(t, s)
	kept := []string{"Bearer"}
	for _, kind := range []struct{ path, first string }{{"/ws/pty", "session"}, {"/ws/claude-stream", "system"}} {
		conn := w.socket(kind.path)
		token := w.await(conn, kind.first, "")["session_id"].(string)
		kept = append(kept, token)
		at := kind.path + "?session_id=" + token

		// Token invalid at attach: forged, cut, longer, for the other kind of WebSocket, with an unknown id. TestTokenTampered in
		// package socket changes each of its bits.
		bad := []byte(token)
		bad[len(bad)/2] ^= 1
		w.refuses("changed", kind.path+"?session_id="+string(bad))
		other := map[string]string{"/ws/pty": "/ws/claude-stream", "/ws/claude-stream": "/ws/pty"}[kind.path]
		w.refuses("other kind", other+"?session_id="+token)
		w.refuses("cut", kind.path+"?session_id="+token[:len(token)-4])
		w.refuses("longer", kind.path+"?session_id="+token+"AAAA")
		w.refuses("an id", kind.path+"?session_id="+belljar.NewID())
		w.refuses("resume=false does not help", kind.path+"?resume=false&session_id=x")

		// Token expires while a WebSocket is attached: the stream continues, and only a new attach is refused.
		w.advance(30*time.Minute + time.Second)
		w.refuses("expired", at)
		w.say(conn, `{"type":"ping"}`)
		w.await(conn, "pong", "")

		// force_new with an invalid token starts a new terminal or chat.
		fresh := w.socket(at + "&force_new=1")
		m := w.await(fresh, kind.first, "")
		if m["resumed"] != false || m["session_id"] == token {
			t.Errorf("force_new: %v", m)
		}
		// Token valid but the program is gone.
		again := kind.path + "?session_id=" + m["session_id"].(string)
		want := websocket.StatusNormalClosure
		if kind.first == "session" {
			want = 4004
			at := w.open()
			list, err := at.Engine.Terminals().List(t.Context(), at.Session)
			if err != nil || len(list) != 2 {
				t.Fatal(list, err)
			}
			if err := at.Engine.Terminals().Close(t.Context(), list[1].ID); err != nil {
				t.Fatal(err)
			}
		} else {
			w.say(fresh, "bye")
		}
		if _, code := w.ends(fresh); code != want {
			t.Errorf("the end: %d", code)
		}
		w.refuses("gone", again)
		_ = conn.CloseNow()
	}

	// Large and binary files: truncation within the schema, never raw bytes.
	w.door.LimitFiles(10_000)
	w.sh(`yes é | head -c 12000 > big; head -c 100 /dev/zero > zero; printf '\303' > half`)
	for file, want := range map[string]string{
		"big": `"path":"big","truncated":true,"size":12000}`, "zero": `{"content":"","path":"zero","binary":true,"size":100}`,
		"half": `{"content":"","path":"half","binary":true,"size":1}`,
	} {
		if got := w.ask(w.key, "GET", "/api/file?path="+file, ""); got.status != 200 || !strings.HasSuffix(got.body, want) {
			t.Errorf("%s answers %d with %d bytes: …%s", file, got.status, len(got.body), got.body[max(0, len(got.body)-80):])
		}
	}

	w.conditionalWrites()
	if log := w.log(); !strings.Contains(log, "path=/ws/pty") || slices.ContainsFunc(kept, func(secret string) bool { return strings.Contains(log, secret) }) {
		t.Errorf("the log has no request, or one of %q:\n%s", kept, log)
	}
}

// conditionalWrites checks that a write with If-Match or If-None-Match replaces only the file that it names.
func (w *world) conditionalWrites() {
	w.Helper()
	const file = "/api/file?path=shared/a.txt"
	put := func(path, text string, status int, header ...string) (tag string) {
		w.Helper()
		got := w.ask(w.key, "PUT", path, `{"content":"`+text+`"}`, header...)
		if tag = got.header.Get("ETag"); got.status != status || (tag != "") != (status == 200) {
			w.Errorf("PUT %s %q: %d %s, ETag %s", path, header, got.status, got.body, tag)
		}
		return tag
	}
	read := func(path string) string { return w.ask(w.key, "GET", path, "").header.Get("ETag") }
	put(file, "none", 412, "If-Match", "*")
	first := put(file, "one", 200, "If-None-Match", "*")
	if got := read(file); got != first {
		w.Errorf("GET has the ETag %s, PUT %s", got, first)
	}
	put(file, "over", 412, "If-None-Match", "*")
	second := put(file, "two", 200, "If-Match", `"other", `+first)
	put(file, "over", 412, "If-Match", first)
	put(file, "over", 412, "If-Match", "W/"+second)
	put(file, "over", 400, "If-Match", "bare")
	put(file, "over", 400, "If-Match", second, "If-None-Match", "*")
	put(file, "over", 400, "If-None-Match", first)
	put("/api/file?path=shared", "over", 400, "If-None-Match", "*")
	put("/api/file?path=shared", "over", 400, "If-Match", "*")
	put("/api/file?path=big", "over", 412, "If-Match", read("/api/file?path=big")) // it was read in part
	put("/api/file?path=shared/gone", "over", 412, "If-Match", second)
	if got := w.ask(w.key, "GET", file, ""); got.body != `{"content":"two","path":"shared/a.txt"}` {
		w.Errorf("the file is %s", got.body)
	}
	put("/api/file?path=zero", "text", 200, "If-Match", read("/api/file?path=zero"))
	put(file, "plain", 200)
}

// Git and chats start in the workspace, even if the image names another folder.
func TestImageWithFolder(t *testing.T) {
	ref, image := apitest.WithImage(t, map[string]any{"WorkingDir": "/usr"})
	w := newWorld(t, source{key: "alice", open: func(t *testing.T) workspace.Source {
		return &sandbox.Source{Engine: apitest.NewWorld(t, nil, unbounded, image).Service, Image: ref}
	}}, func(o *door.Options) {
		o.Templates = door.Templates{"claude": {Kind: "chat", Command: []string{"/bin/sh", "-c", `printf '{"type":"files","names":"%s"}\n' "$(echo *)"; cat`}}}
	})
	at := w.open()
	run, err := at.Engine.Runs().Start(w.context(), belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: at.Session, Command: []string{"git", "init", "-q"}, Cwd: ".",
	}})
	if err == nil {
		_, _, err = belljar.Collect(w.context(), at.Engine.Runs(), run.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.ask(w.key, "PUT", "/api/file?path=new", `{"content":"x"}`)
	if got := w.ask(w.key, "GET", "/api/git/status", ""); !strings.Contains(got.body, `"files":{"new":"U"}`) {
		t.Errorf("git: %s", got.body)
	}
	if m := w.await(w.socket("/ws/claude-stream"), "files", ""); m["names"] != "new" {
		t.Errorf("a chat: %v", m)
	}
}

// Tokens belong to one user and one workspace: theft and replay find nothing.
func TestTokensAreTheCallers(t *testing.T) {
	w := newWorld(t, sources()[0])
	conn := w.socket("/ws/pty")
	token := w.await(conn, "session", "")["session_id"].(string)
	if strings.Contains(token, w.open().Session) {
		t.Error("the token names the session")
	}
	bob, _, err := w.dial("bob", "/ws/pty?session_id="+token)
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := w.next(bob); m["type"] != "session_not_found" {
		t.Error(m)
	}
	mine := w.open()
	other, err := mine.Engine.(belljar.Service).Sessions().Create(t.Context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: belljar.SpecVersion, BaseImage: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	w.refuses("another workspace", "/workspace/"+other.ID+"/ws/pty?session_id="+token)
	same := w.socket("/workspace/" + mine.Session + "/ws/pty?session_id=" + token)
	if m, _ := w.next(same); m["resumed"] != true {
		t.Error(m)
	}
	if got := w.ask("bob", "GET", "/workspace/"+mine.Session+"/api/tree", ""); got.status != 404 || got.body != `{"detail":"session not found"}` && !strings.Contains(got.body, "detail") {
		t.Error(got)
	}
	stranger, _, err := w.dial("", "/ws/pty?session_id="+token)
	if err != nil {
		t.Fatal(err)
	}
	if types, code := w.ends(stranger); code != 4001 || len(types) != 1 {
		t.Error(types, code)
	}
	// A token of a door with another secret.
	elsewhere := newWorld(t, source{name: "sandbox", key: "alice", open: func(*testing.T) workspace.Source { return w.source }}, func(o *door.Options) { o.Secret = []byte(strings.Repeat("z", 32)) })
	elsewhere.refuses("another secret", "/ws/pty?session_id="+token)
}

// A terminal without a client for the whole reattach window is removed.
func TestReattachWindow(t *testing.T) {
	windows := &byHand{Clock: clock.Wall{}, due: make(chan func() bool, 10)}
	w := newWorld(t, source{name: "sandbox", key: "alice", open: func(t *testing.T) workspace.Source {
		return &sandbox.Source{Engine: apitest.NewWorld(t, nil, func(o *service.Options) { o.Terminals.Reattach, o.Clock = byHandAlone, windows }).Service}
	}})
	conn := w.socket("/ws/pty")
	token := w.await(conn, "session", "")["session_id"].(string)
	_ = conn.Close(websocket.StatusNormalClosure, "")
	for ended := false; !ended; { // the first timer was stopped when the client attached
		select {
		case end := <-windows.due:
			ended = end()
		case <-w.context().Done():
			t.Fatal("the terminal has a client")
		}
	}
	w.refuses("beyond the window", "/ws/pty?session_id="+token)
}

// byHandAlone is the duration of the timers that [byHand] controls.
const byHandAlone = time.Nanosecond

// byHand is the machine's clock, with timers that the test fires.
type byHand struct {
	clock.Clock
	due chan func() bool // false if the timer was stopped
}

func (c *byHand) AfterFunc(d time.Duration, f func()) func() bool {
	if d != byHandAlone {
		return c.Clock.AfterFunc(d, f)
	}
	var over atomic.Bool
	c.due <- func() bool {
		if over.Swap(true) {
			return false
		}
		f()
		return true
	}
	return func() bool { return !over.Swap(true) }
}

// Each limit of a route has its own error.
func TestRouteLimits(t *testing.T) {
	w := newWorld(t, sources()[0], func(o *door.Options) {
		o.Trees, o.Searches = api.NewBuckets(2, 0, nil), api.NewBuckets(1, 0, nil)
	})
	for path, n := range map[string]int{"/api/tree": 2, "/api/search?q=x": 1} {
		for i := range n + 1 {
			got := w.ask("alice", "GET", path, "")
			if want := map[bool]int{true: 200, false: 429}[i < n]; got.status != want || want == 429 && (got.body != `{"detail":"Rate limit exceeded"}` || got.header.Get("Retry-After") == "") {
				t.Errorf("%s, %d: %d %s %v", path, i, got.status, got.body, got.header)
			}
		}
		if got := w.ask("bob", "GET", path, ""); got.status != 200 {
			t.Errorf("another user: %v", got)
		}
	}
}

// A polling client gets 304 while nothing has changed, also within the second of a change.
func TestETag(t *testing.T) {
	w := newWorld(t, sources()[0])
	w.sh("echo a > x")
	for _, path := range []string{"/api/tree", "/api/file?path=x"} {
		w.sh("echo a > x")
		tag := w.ask("alice", "GET", path, "").header.Get("ETag")
		if got := w.ask("alice", "GET", path, "", "If-None-Match", tag); got.status != 304 || got.body != "" {
			t.Errorf("%s: %v", path, got)
		}
		w.sh("echo bb > x")
		if got := w.ask("alice", "GET", path, "", "If-None-Match", tag); got.status != 200 {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// Errors: an unknown caller, in both forms, and the id of the request.
func TestErrors(t *testing.T) {
	w := newWorld(t, sources()[0])
	got := w.ask("", "GET", "/api/tree", "", "X-Request-Id", "hop-1")
	if got.status != 401 || got.body != `{"detail":"Authentication required"}` || got.header.Get("X-Request-Id") != "hop-1" {
		t.Error(got)
	}
	got = w.ask("alice", "GET", "/workspace/none/api/tree", "", "Accept", "application/problem+json")
	if got.status != 404 || !strings.Contains(got.body, "urn:belljar:error:not_found") {
		t.Error(got)
	}
	if was := w.door.LimitFiles(1000); was != 5<<20 {
		t.Errorf("files have at most %d bytes", was)
	}
	if got := w.ask("alice", "PUT", "/api/file?path=x", "{\"content\":\"\xff\"}"); got.status != 422 || !strings.Contains(got.body, "json_invalid") {
		t.Error("bytes that are not UTF-8:", got)
	}
	if got := w.ask("alice", "PUT", "/api/file?path=x", `{"content":"`+strings.Repeat("x", 1000)+`"}`); got.status != 413 || !strings.HasPrefix(got.body, `{"detail":"`) || !strings.Contains(got.body, "1000 bytes") {
		t.Error(got.status, got.body)
	}
	for path, allowed := range map[string]string{"/api/file": "GET, HEAD, PUT, DELETE", "/workspace/healthz": "GET, HEAD", "/workspace/__meta/version": "GET, HEAD", "/ws/pty": "GET, HEAD"} {
		if got := w.ask("alice", "PATCH", path, ""); got.status != 405 || got.header.Get("Allow") != allowed {
			t.Errorf("PATCH %s: %d, Allow %s", path, got.status, got.header.Get("Allow"))
		}
	}
	for path, body := range map[string]string{"/workspace/healthz": `{"status":"ok"}`, "/workspace/__meta/version": `{"version":"` + workspace.APIVersion + `"}`} {
		if got := w.ask("bob", "GET", path, ""); got.status != 200 || got.body != body || got.header.Get("X-Workspace-API-Version") != workspace.APIVersion {
			t.Error(path, got)
		}
		if got := w.ask("", "GET", path, ""); got.status != 401 {
			t.Error(path, got)
		}
	}
	conn := w.socket("/ws/claude-stream?provider=broken")
	w.await(conn, "system", "connected")
	if m := w.await(conn, "system", "error"); m["message"] != "the chat program has ended with exit code 127" {
		t.Error(m)
	}
}

// Clients that connect at the same time get no more chats than a workspace may have.
func TestChatsAtOnce(t *testing.T) {
	w := newWorld(t, sources()[0])
	w.open()
	outcomes := make(chan string)
	for range 12 {
		go func() {
			conn, _, err := w.dial(w.key, "/ws/claude-stream")
			if err != nil {
				outcomes <- err.Error()
				return
			}
			_, raw, err := conn.Read(w.context())
			if err == nil && !strings.Contains(string(raw), `"connected"`) {
				_, _, err = conn.Read(w.context())
			}
			outcomes <- fmt.Sprint(int(websocket.CloseStatus(err)))
		}()
	}
	got := map[string]int{}
	for range 12 {
		got[<-outcomes]++
	}
	if got["-1"] != 8 || got["1013"] != 4 {
		t.Error("close codes:", got)
	}
}

// A polling front end does not open its workspace for each request. If its workspace has ended, it gets a new one.
func TestPollingOpensOnce(t *testing.T) {
	w := newWorld(t, sources()[0])
	first := w.open()
	for range 3 {
		if got := w.ask("alice", "GET", "/api/tree", ""); got.status != 200 {
			t.Fatal(got)
		}
	}
	if err := first.Engine.(belljar.Service).Sessions().Delete(t.Context(), first.Session); err != nil {
		t.Fatal(err)
	}
	if got := w.ask("alice", "GET", "/api/tree", ""); got.status != 200 || w.open().Session == first.Session {
		t.Error(got)
	}
	if got := w.ask("alice", "GET", "/workspace/"+first.Session+"/api/tree", ""); got.status != 404 || !strings.Contains(got.body, "detail") {
		t.Error(got)
	}
}

// The door's own commands have no more time than the server permits, rather than being refused.
func TestShortMaximum(t *testing.T) {
	w := newWorld(t, source{name: "sandbox", key: "alice", open: func(t *testing.T) workspace.Source {
		return &sandbox.Source{Engine: apitest.NewWorld(t, nil, func(o *service.Options) {
			o.MaxLimits = belljar.MaxLimits()
			o.MaxLimits.TimeoutSec, o.Limits.TimeoutSec = 9, 9
		}).Service}
	}}, func(o *door.Options) { o.ChatLifetime = 9 * time.Second })
	if got := w.ask("alice", "GET", "/api/git/status", ""); got.status != 200 {
		t.Error(got)
	}
}

// A chat can be interrupted even if its user may have only one run, and whether or not one more terminal is allowed. Both forms of the
// message do so.
func TestInterruptWithinQuotas(t *testing.T) {
	for name, change := range map[string]func(*service.Options){
		"one run":   func(o *service.Options) { o.Quota.ConcurrentRuns = 1 },
		"terminals": func(o *service.Options) { o.Terminals.PerSession = 1 },
	} {
		w := newWorld(t, source{name: "sandbox", key: "alice", open: func(t *testing.T) workspace.Source {
			return &sandbox.Source{Engine: apitest.NewWorld(t, nil, change).Service}
		}})
		if name == "terminals" {
			w.await(w.socket("/ws/pty"), "session", "")
		}
		conn := w.socket("/ws/claude-stream")
		w.await(conn, "system", "init")
		w.say(conn, map[string]string{"one run": `{"type":"control","subtype":"interrupt"}`, "terminals": `{"type":"interrupt"}`}[name])
		// The program may answer more than one signal before the server does.
		for result, interrupted := false, false; !result || !interrupted; {
			switch m, closed := w.next(conn); {
			case closed != 0 || m["subtype"] == "error":
				t.Fatalf("%s: %v, closed with %d", name, m, closed)
			case m["type"] == "result":
				result = true
			case m["type"] == "system" && m["subtype"] == "interrupted":
				token, _ := m["session_id"].(string)
				if token == "" {
					t.Fatalf("%s: %v", name, m)
				}
				w.await(w.socket("/ws/claude-stream?session_id="+token), "system", "connected")
				interrupted = true
			}
		}
		if terminals, err := w.open().Engine.Terminals().List(t.Context(), w.open().Session); err != nil || name == "one run" && len(terminals) > 0 {
			t.Errorf("%s: %v, %v", name, terminals, err)
		}
	}
}

// A message of many MiB reaches a chat's program, whatever the server's limits for interactive runs are by default.
func TestLongMessage(t *testing.T) {
	w := newWorld(t, source{name: "sandbox", key: "alice", open: func(t *testing.T) workspace.Source {
		return &sandbox.Source{Engine: apitest.NewWorld(t, nil, func(o *service.Options) { o.Stdin.MaxFrameBytes = 1000 }).Service}
	}}, func(o *door.Options) {
		o.Templates = door.Templates{"claude": {Kind: "chat", Command: []string{"/bin/sh", "-c", `printf '{"type":"size","n":%s}\n' "$(head -n 1 | wc -c)"; cat`}}}
	})
	conn := w.socket("/ws/claude-stream")
	w.say(conn, strings.Repeat("x", 6<<20))
	w.say(conn, `{"type":"ping"}`) // the program has got all
	for got := 0; got < 2; {
		switch m, closed := w.next(conn); {
		case closed != 0 || m["subtype"] == "error":
			t.Fatalf("%v, closed with %d", m, closed)
		case m["type"] == "pong":
			got++
		case m["type"] == "size":
			if got++; m["n"].(float64) < 6<<20 {
				t.Errorf("%v bytes", m["n"])
			}
		}
	}
}

// TestSizeInHead checks that the answer for a truncated file in HEAD has the file's size.
func TestSizeInHead(t *testing.T) {
	w := newWorld(t, sources()[0])
	w.sh(`git init -q -b main . && git config user.name t && git config user.email t@t
head -c 9000000 /dev/zero | tr '\0' a > big && git add big && git commit -qm big`)
	got := w.ask(w.key, "GET", "/api/git/show?path=big", "")
	if want := `"path":"big","truncated":true,"size":9000000}`; got.status != 200 || !strings.HasSuffix(got.body, want) {
		t.Errorf("%d with %d bytes: …%s", got.status, len(got.body), got.body[max(0, len(got.body)-80):])
	}
}
