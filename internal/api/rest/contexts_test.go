//go:build linux

package rest_test

import (
	"cmp"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/test/apitest"
)

// A context is found by its name, and only by its session's owner.
func TestGetContext(t *testing.T) {
	b := newEngine(t)
	var s belljar.Session
	b.ask(200, "POST", "/sessions", "alice", `{"spec_version": "1.0", "base_image": "host"}`, &s)
	of := "/sessions/" + s.ID + "/contexts"
	b.ask(200, "POST", of, "alice", `{"language": "bash", "name": "data"}`, nil)
	var c belljar.Context
	if b.ask(200, "GET", of+"/data", "alice", "", &c); c.Name != "data" || c.State != belljar.ContextIdle {
		t.Errorf("%+v", c)
	}
	var refused refusal
	if b.ask(404, "GET", of+"/other", "alice", "", &refused); refused.Error.Message != `context "other" does not exist` {
		t.Errorf("%+v", refused)
	}
	if b.ask(404, "GET", of+"/data", "bob", "", &refused); refused.Error.Message == `context "data" does not exist` {
		t.Errorf("%+v", refused)
	}
}

// Answers with the results of code, or with the output of a request that is repeated, share memory before they are read. A request that needs
// none of it does not wait, and neither does the first of a key.
func TestResultsShareMemory(t *testing.T) {
	const limit = 1 << 20
	shares := api.NewShares(limit, 0)
	s := apitest.NewWorld(t, nil).Service
	door := handler(t, rest.Options{Engine: s, Auth: operatorOr{s}, Bodies: shares}, api.EdgeOptions{})
	ask := func(status int, method, path, key, body string) (id, answer string) {
		t.Helper()
		r := httptest.NewRequest(method, prefix+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-API-KEY", "alice")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		w := httptest.NewRecorder()
		door.ServeHTTP(w, r)
		if w.Code != status {
			t.Fatalf("%s %s: %d, want %d: %s", method, path, w.Code, status, w.Body)
		}
		var made struct {
			Session string `json:"session_id"`
			Run     string `json:"run_id"`
			Exec    string `json:"exec_id"`
		}
		_ = json.Unmarshal(w.Body.Bytes(), &made) // not every answer has an id
		return cmp.Or(made.Run, made.Exec, made.Session), w.Body.String()
	}
	session, _ := ask(200, "POST", "/sessions", "", `{"spec_version": "1.0", "base_image": "host"}`)
	print := "for i in $(seq 200); do echo 0123456789 0123456789 0123456789; done"
	execute, code := "/sessions/"+session+"/contexts/sh/execute?wait=200", `{"language": "bash", "code": "`+print+`"}`
	exec, command := "/sessions/"+session+"/exec", `{"cmd": ["sh", "-c", "`+print+`"]}`
	shown, _ := ask(200, "POST", execute, "code", code)
	plain, _ := ask(200, "POST", exec, "exec", command)
	for _, held := range []bool{false, true} {
		free, want := int64(0), 200
		if held {
			free, want = limit-1000, 429
		}
		release, err := shares.Take(t.Context(), "alice", free)
		if err != nil {
			t.Fatal(err)
		}
		ask(want, "GET", "/runs/"+shown+"/results", "", "")
		ask(want, "POST", execute, "code", code)
		ask(want, "POST", exec, "exec", command)
		if _, answer := ask(200, "HEAD", "/runs/"+shown+"/results", "", ""); answer != "" {
			t.Errorf("HEAD is answered with %q", answer)
		}
		if _, answer := ask(200, "GET", "/runs/"+plain+"/results", "", ""); !strings.Contains(answer, `{"items":[],"truncated":false}`) {
			t.Errorf("a run without a context: %s", answer)
		}
		release()
	}
	if release, err := shares.Take(t.Context(), "alice", limit); err != nil {
		t.Error("answers keep their share:", err)
	} else {
		release()
	}
}
