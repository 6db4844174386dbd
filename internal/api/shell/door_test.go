//go:build linux

package shell_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

const canonical = "/api/v1/sandbox/sessions/"

// Every route requires a key, and no user can access another's session.
func TestAuthentication(t *testing.T) {
	w := newWorld(t)
	session := w.open()
	for _, route := range []string{
		"POST /v1/sessions", "GET /v1/sessions", "GET " + session, "DELETE " + session, "POST " + session + "/exec", "POST " + session + "/exec/stream",
		"POST " + session + "/fs/write", "GET " + session + "/fs/read?path=x", "GET " + session + "/fs/list", "DELETE " + session + "/fs/delete?path=x",
		"GET /v1/nowhere", "POST " + canonical + "x/shell",
	} {
		method, path, _ := strings.Cut(route, " ")
		for name, header := range map[string][]string{
			"missing": nil, "no bearer prefix": {"Authorization", "alice"}, "invalid key": {"Authorization", "Bearer mallory"}, "another scheme": {"Authorization", "Basic YWxpY2U6"},
		} {
			if a := w.send("", method, path, "{}", header...); a.status != 401 || a.code() != "unauthorized" {
				t.Errorf("%s, %s: %d %s", route, name, a.status, a.raw)
			}
		}
		if strings.Contains(path, session) {
			body := `{"cmd":"true"}`
			if strings.Contains(path, "/fs/") {
				body = `{"path":"x","text":""}`
			}
			if a := w.send("bob", method, path, body); a.status != 404 || a.code() != "not_found" {
				t.Errorf("%s of another: %d %s", route, a.status, a.raw)
			}
		}
	}
	if a := w.send("bob", "GET", "/v1/sessions", ""); a.raw != "[]\n" {
		t.Errorf("bob sees %s", a.raw)
	}
	w.want(session, "echo mine", "mine\n", 0)
}

func TestRefused(t *testing.T) {
	w := newWorld(t, func(o *service.Options) { o.Policy = policy(); o.Policy.AllowedImages = []string{"host"} })
	session := w.open()
	id := strings.TrimPrefix(session, "/v1/sessions/")
	long := strings.Repeat("x", 1<<20+1)
	for _, test := range []struct {
		name, route, body string
		status            int
		code, field       string
	}{
		{"empty cmd", "POST " + session + "/exec", `{"cmd":""}`, 400, "invalid_request", "cmd"},
		{"blank cmd", "POST " + session + "/exec", `{"cmd":" \n\t"}`, 400, "invalid_request", "cmd"},
		{"no cmd", "POST " + session + "/exec", ``, 400, "invalid_request", "cmd"},
		{"invalid JSON", "POST " + session + "/exec", `{"cmd":`, 400, "invalid_request", ""},
		{"two values", "POST " + session + "/exec", `{"cmd":"a"}{}`, 400, "invalid_request", ""},
		{"not text", "POST " + session + "/exec", "{\"cmd\":\"\xff\"}", 400, "invalid_request", ""},
		{"wrong type", "POST " + session + "/exec", `{"cmd":["ls"]}`, 400, "invalid_request", "cmd"},
		{"unknown field", "POST " + session + "/exec", `{"cmd":"ls","cwd":"/"}`, 400, "invalid_request", "cwd"},
		{"NUL", "POST " + session + "/exec", `{"cmd":"a\u0000b"}`, 400, "invalid_request", "cmd"},
		{"cmd too large", "POST " + session + "/exec", `{"cmd":"` + long + `"}`, 400, "invalid_request", "cmd"},
		{"negative timeout", "POST " + session + "/exec", `{"cmd":"ls","timeout_ms":-1}`, 400, "invalid_request", "timeout_ms"},
		{"no time at all", "POST " + session + "/exec", `{"cmd":"ls","timeout_ms":0}`, 400, "invalid_request", "timeout_ms"},
		{"negative time", "POST " + session + "/exec", `{"cmd":"ls","timeout_ms":-1}`, 400, "invalid_request", "timeout_ms"},
		{"fractional timeout", "POST " + session + "/exec", `{"cmd":"ls","timeout_ms":0.5}`, 400, "invalid_request", "timeout_ms"},
		{"endless timeout", "POST " + session + "/exec", `{"cmd":"ls","timeout_ms":1e15}`, 403, "policy_denied", "timeout_ms"},
		{"streamed", "POST " + session + "/exec/stream", `{"cmd":""}`, 400, "invalid_request", "cmd"},
		{"stdin at the shell API's route", "POST " + session + "/exec", `{"cmd":"cat","stdin":"x"}`, 400, "invalid_request", "stdin"},
		{"query", "POST " + canonical + id + "/shell?wait=1", `{"cmd":"ls"}`, 400, "invalid_request", "wait"},
		{"unknown session", "POST /v1/sessions/nope/exec", `{"cmd":"ls"}`, 404, "not_found", ""},
		{"image not allowed", "POST /v1/sessions", `{"image":"evil:latest"}`, 403, "policy_denied", "image"},
		{"negative ttl", "POST /v1/sessions", `{"ttl_seconds":-1}`, 400, "invalid_request", "ttl_seconds"},
		{"huge ttl", "POST /v1/sessions", `{"ttl_seconds":1e12}`, 403, "policy_denied", "ttl_seconds"},
		{"missing path", "POST " + session + "/fs/write", `{"text":"x"}`, 400, "invalid_request", "path"},
		{"no content", "POST " + session + "/fs/write", `{"path":"x"}`, 400, "invalid_request", "text"},
		{"both contents", "POST " + session + "/fs/write", `{"path":"x","text":"","content_base64":""}`, 400, "invalid_request", "content_base64"},
		{"no base64", "POST " + session + "/fs/write", `{"path":"x","content_base64":"!"}`, 400, "invalid_request", "content_base64"},
		{"write outside", "POST " + session + "/fs/write", `{"path":"../x","text":""}`, 400, "path_escapes", ""},
		{"read without path", "GET " + session + "/fs/read", "", 400, "invalid_request", "path"},
		{"read outside", "GET " + session + "/fs/read?path=/etc/passwd", "", 400, "path_escapes", ""},
		{"read nothing", "GET " + session + "/fs/read?path=nothing", "", 404, "not_found", ""},
		{"max_bytes 0", "GET " + session + "/fs/read?path=x&max_bytes=0", "", 400, "invalid_request", "max_bytes"},
		{"max_bytes words", "GET " + session + "/fs/read?path=x&max_bytes=many", "", 400, "invalid_request", "max_bytes"},
		{"path twice", "GET " + session + "/fs/read?path=x&path=y", "", 400, "invalid_request", "path"},
		{"delete the workspace", "DELETE " + session + "/fs/delete?path=.", "", 400, "invalid_request", ""},
		{"nowhere", "GET /v1/nothing", "", 404, "not_found", ""},
		{"wrong method", "PUT " + session, "", 405, "invalid_request", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			method, path, _ := strings.Cut(test.route, " ")
			a := w.send("alice", method, path, test.body)
			if a.status != test.status || a.code() != test.code || test.field != "" && a.detail("field") != test.field {
				t.Errorf("%d %.600s; want %d %s %s", a.status, a.raw, test.status, test.code, test.field)
			}
			if test.name == "endless timeout" && (a.detail("maximum") != 864e5 || a.detail("provided") != 1e15) {
				t.Errorf("not in milliseconds: %s", a.raw)
			}
			if test.name == "cmd too large" && a.detail("maximum") != float64(1<<20) {
				t.Errorf("details: %s", a.raw)
			}
		})
	}
	w.want(session, "echo usable", "usable\n", 0)
}

func policy() service.Policy { return service.DefaultPolicy() }

// Links made by a program cannot leave the workspace.
func TestLinksOut(t *testing.T) {
	w := newWorld(t)
	session := w.open()
	w.want(session, "ln -s /etc out; ln -s /etc/passwd leaf; ln -s nowhere loop", "", 0)
	for _, path := range []string{"out/passwd", "leaf", "out/../../x"} {
		if a := w.send("alice", "GET", session+"/fs/read?path="+path, ""); a.code() != "path_escapes" {
			t.Errorf("read %s: %d %s", path, a.status, a.raw)
		}
	}
	if a := w.send("alice", "POST", session+"/fs/write", `{"path":"out/x","text":"x"}`); a.code() != "path_escapes" {
		t.Errorf("write: %d %s", a.status, a.raw)
	}
}

// The route of the sandbox API has more options and the same response.
func TestCanonicalRoute(t *testing.T) {
	w := newWorld(t)
	path := canonical + strings.TrimPrefix(w.open(), "/v1/sessions/") + "/shell"
	a := w.ask(200, "POST", path, `{"cmd":"cat; echo err >&2; (exit 3)","separate":true,"stdin":"typed"}`)
	if a.body["stdout"] != "typed" || a.body["stderr"] != "err\n" || a.body["exit_code"] != 3.0 || a.body["run_id"] != a.header.Get("Belljar-Run-Id") {
		t.Errorf("%s", a.raw)
	}
	if _, has := a.body["output"]; has {
		t.Errorf("%s", a.raw)
	}
	a = w.ask(200, "POST", path, `{"cmd":"printf '\\377\\000x'"}`)
	if a.body["output"] != "/wB4" || a.body["output_encoding"] != "base64" {
		t.Errorf("binary: %s", a.raw)
	}
	a = w.ask(200, "POST", path, `{"cmd":"head -c 3000000 /dev/zero | tr '\\0' '\"'"}`)
	if len(a.body["output"].(string)) != 1<<20 || a.body["truncated"] != true || a.body["exit_code"] != 0.0 {
		t.Errorf("%d bytes, %v", len(a.body["output"].(string)), a.body["truncated"])
	}
	a = w.ask(200, "POST", path, `{"cmd":"cat; cat </dev/tty; echo nothing"}`)
	if a.body["output"] != "nothing\n" {
		t.Errorf("%s", a.raw)
	}
	first := w.ask(200, "POST", path, `{"cmd":"n=$((n+1)); echo $n"}`, "Idempotency-Key", "k")
	again := w.ask(200, "POST", path, `{"cmd":"n=$((n+1)); echo $n"}`, "Idempotency-Key", "k")
	if first.body["output"] != "1\n" || again.body["output"] != "1\n" || first.body["run_id"] != again.body["run_id"] || again.body["details"] == nil {
		t.Errorf("%s\n%s", first.raw, again.raw)
	}
}

// events reads a stream's events until until returns true.
func (w *world) events(resp *http.Response, until func(name, id, data string) bool) {
	w.Helper()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var name, id, data string
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "event":
			name = value
		case "id":
			id = value
		case "data":
			data = value
		case "":
			if name != "" && until(name, id, data) {
				return
			}
			name, id, data = "", "", ""
		}
	}
	w.Fatalf("the stream ends early: %v", lines.Err())
}

// poke resumes a command that waits for the FIFO go.
func (w *world) poke(session string) {
	w.Helper()
	runs := w.engine.As(belljar.Caller{ID: "alice", Role: belljar.RoleUser}).Runs()
	run, err := runs.Start(w.Context(), belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: "1.1", SessionID: strings.TrimPrefix(session, "/v1/sessions/"), Command: []string{"sh", "-c", "echo >go"},
	}})
	if err == nil {
		_, _, err = belljar.Collect(w.Context(), runs, run.ID)
	}
	if err != nil {
		w.Error(err)
	}
}

// Commands of one session run one at a time, in order; those of different sessions run concurrently.
func TestTurns(t *testing.T) {
	w := newWorld(t)
	a, b := w.open(), w.open()
	w.want(a, "mkfifo go; n=0", "", 0)
	resp, err := w.client.Do(w.request("alice", "POST", a+"/exec/stream", `{"cmd":"echo up; read x <go; n=1"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	w.events(resp, func(name, _, _ string) bool { return name == "chunk" })
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if got := w.send("alice", "POST", a+"/exec", `{"cmd":"n=$((n*2)); echo $n"}`); got.status != 200 {
				t.Errorf("%d %s", got.status, got.raw)
			}
		})
	}
	w.want(b, "echo other", "other\n", 0)
	w.poke(a)
	all.Wait()
	w.want(a, "echo $n", "16\n", 0)
}

// A command that never began reports the directory in which the shell is.
func TestDirectoryOfCancelled(t *testing.T) {
	w := newWorld(t)
	session := w.open()
	w.want(session, "mkfifo go; mkdir d; cd d", "", 0)
	first, err := w.client.Do(w.request("alice", "POST", session+"/exec/stream", `{"cmd":"echo up; read x <../go"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	w.events(first, func(name, _, _ string) bool { return name == "chunk" })
	second, err := w.client.Do(w.request("alice", "POST", session+"/exec/stream", `{"cmd":"echo never"}`, "Idempotency-Key", "k"))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Body.Close()
	if err := w.engine.As(belljar.Caller{ID: "alice", Role: belljar.RoleUser}).Runs().Cancel(t.Context(), second.Header.Get("Belljar-Run-Id")); err != nil {
		t.Fatal(err)
	}
	done := map[string]any{}
	w.events(second, func(name, _, data string) bool {
		if name != "done" {
			return false
		}
		if err := json.Unmarshal([]byte(data), &done); err != nil {
			t.Error(err)
		}
		return true
	})
	again := w.ask(200, "POST", session+"/exec", `{"cmd":"echo never"}`, "Idempotency-Key", "k")
	if done["cwd"] != "/workspace/d" || again.body["cwd"] != "/workspace/d" {
		t.Errorf("stream %v, answer %s", done, again.raw)
	}
	w.poke(session)
}

// A command continues after its client disconnects.
func TestClientGoesAway(t *testing.T) {
	w := newWorld(t)
	session := w.open()
	w.want(session, "mkfifo go", "", 0)
	resp, err := w.client.Do(w.request("alice", "POST", session+"/exec/stream", `{"cmd":"echo up; read x <go; n=went-on"}`))
	if err != nil {
		t.Fatal(err)
	}
	w.events(resp, func(name, _, _ string) bool { return name == "chunk" })
	resp.Body.Close()
	w.poke(session)
	w.want(session, "echo $n", "went-on\n", 0)
}

// The chunks of a stream arrive while the command runs: it waits until the test has seen each.
func TestStreamIsReal(t *testing.T) {
	w := newWorld(t)
	session := w.open()
	w.want(session, "mkfifo go", "", 0)
	for _, route := range []string{session + "/exec/stream", canonical + strings.TrimPrefix(session, "/v1/sessions/") + "/shell"} {
		resp, err := w.client.Do(w.request("alice", "POST", route, `{"cmd":"for i in 1 2 3; do echo $i; until read x <go; do :; done; done; (exit 7)"}`, "Accept", "text/event-stream"))
		if err != nil {
			t.Fatal(err)
		}
		seen, last := 0, ""
		w.events(resp, func(name, id, data string) bool {
			switch name {
			case "chunk":
				seen++
				var k struct {
					Seq            uint64
					Stream, Output string
					Encoding       string
				}
				if err := json.Unmarshal([]byte(data), &k); err != nil || k.Output != fmt.Sprintln(seen) || fmt.Sprint(k.Seq) != id || k.Stream != "stdout" {
					t.Errorf("chunk %s: %s, %v", id, data, err)
				}
				w.poke(session)
			case "done":
				last = data
			case "start":
			default:
				t.Errorf("event %s: %s", name, data)
			}
			return name == "done"
		})
		resp.Body.Close()
		var done map[string]any
		if err := json.Unmarshal([]byte(last), &done); err != nil || seen != 3 || done["exit_code"] != 7.0 || done["cwd"] != "/workspace" {
			t.Errorf("%d chunks, %s", seen, last)
		}
	}
}

// TestSource checks that a request's source is the shell API unless the request names another. The route of the sandbox API has that
// API's source.
func TestSource(t *testing.T) {
	w := newWorld(t, func(o *service.Options) { o.Policy = policy(); o.Policy.Approval = []string{"source=shell"} })
	for source, want := range map[string]belljar.SessionState{"": belljar.SessionStarting, "IDE": belljar.SessionActive} {
		id := w.ask(201, "POST", "/v1/sessions", "{}", "X-Belljar-Source", source).body["id"].(string)
		s, err := w.engine.As(belljar.Caller{ID: "alice", Role: belljar.RoleUser}).Sessions().Get(t.Context(), id)
		if err != nil || s.State != want {
			t.Errorf("source %q: %s, %v", source, s.State, err)
		}
		if want == belljar.SessionActive {
			w.ask(200, "POST", canonical+id+"/shell", `{"cmd":"true"}`)
		}
	}
}
