package rest_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/linetest"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/test/apitest"
)

func (b *bench) start(query, body string) (int, string) {
	b.t.Helper()
	resp := b.send("POST", prefix+"/runs"+query, "alice", nil, body)
	return resp.StatusCode, string(read(b.t, resp))
}

// The first byte over the limit is still read, so that a client that is sending gets the response.
func TestPlainLargeAndDeepBodies(t *testing.T) {
	b := newBench(t)
	large := func(n int) string { return `{"base_image": "host", "command": ["` + strings.Repeat("x", n) + `"]}` }
	if status, answer := b.start("", large(4<<20+1-len(large(0)))); status != http.StatusRequestEntityTooLarge || !strings.Contains(answer, "payload_too_large") {
		t.Errorf("4 MiB and a byte answers %d: %.200s", status, answer)
	}
	if status, answer := b.start("", strings.Repeat("[", 100<<10)); status != http.StatusBadRequest || !strings.Contains(answer, "nested deeper than 64 levels") {
		t.Errorf("deep JSON answers %d: %.200s", status, answer)
	}
	if status, answer := b.start("", `{"base_image": "host", "command": ["true"], "env": {"A": "`+strings.Repeat("x", 1<<20-100)+`"}}`); status != http.StatusOK {
		t.Errorf("a large environment answers %d: %.200s", status, answer)
	}
	if len(b.world.requests) != 1 {
		t.Errorf("%d runs started", len(b.world.requests))
	}
}

// TestRequestReachesTheService checks that every field of a request arrives.
func TestRequestReachesTheService(t *testing.T) {
	b := newBench(t)
	status, answer := b.start("", `{
		"spec_version": "1.1", "runtime": "native", "session_id": "s", "command": ["a"], "env": {"A": "b"},
		"files": [{"path": "p", "content_b64": "aGk=", "mode": 493}], "startup_timeout_sec": 2.5, "timeout_sec": 3,
		"resources": {"cpu": 0.75, "memory_mb": 512, "log_bytes": 1000}, "network_policy": "deny_all", "capture_patterns": ["*.txt"],
		"labels": {"l": "m"}, "interactive": true, "stdin_max_bytes": 9, "stdin_bps": 8, "stdin_idle_timeout_sec": 7, "resume_from_seq": 6,
		"workspace_exec": true, "allow_weak": ["cpu"]}`)
	if status != http.StatusOK {
		t.Fatal(answer)
	}
	got := b.world.requests[0]
	if got.SpecVersion != "1.1" || got.Runtime != "native" || got.SessionID != "s" || got.Env["A"] != "b" || string(got.Files[0].Content) != "hi" || got.Files[0].Mode != 0o755 ||
		got.StartupTimeoutSec != 2.5 || got.TimeoutSec != 3 || got.Resources.CPU != 0.75 || got.Resources.LogBytes != 1000 || got.CapturePatterns[0] != "*.txt" || got.Labels["l"] != "m" ||
		!got.Interactive || got.StdinMaxBytes != 9 || got.StdinBytesPerSec != 8 || got.StdinIdleTimeoutSec != 7 || got.ResumeFromSeq != 6 || !got.WorkspaceExec || got.AllowWeak[0] != "cpu" {
		t.Errorf("%+v", got)
	}
}

func TestFailuresOfTheService(t *testing.T) {
	b := newBench(t)
	for _, test := range []struct {
		err    error
		status int
		want   string
		retry  string
	}{
		{&belljar.Error{Code: belljar.CodeRateLimited, Message: "the queue is full", Details: map[string]any{"retry_after_sec": 7}}, 429, `"message":"the queue is full"`, "7"},
		{&belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "no docker", Details: map[string]any{"suggested": []string{"native"}}, Hint: "run doctor"}, 503, `"suggested":["native"]},"hint":"run doctor"`, "1"},
		{&belljar.Error{Code: belljar.CodeInvalidSpecVersion, Message: "Unsupported spec_version '0.9'", Details: map[string]any{"supported": []string{"1.0"}, "provided": "0.9"}}, 400, `"provided":"0.9","supported":["1.0"]`, ""},
		{&belljar.Error{Code: belljar.CodeIdempotency, Message: "replay with another body", Details: map[string]any{"prior_id": "a"}}, 409, `"prior_id":"a"`, ""},
		{&belljar.Error{Code: belljar.CodeDiskFull, Message: "the disk is full"}, 507, "disk_full", ""},
		{errors.New("open /var/lib/belljar/secret: denied"), 500, `"message":"internal error"`, ""},
	} {
		b.world.fail = test.err
		resp := b.send("POST", prefix+"/runs", "alice", nil, `{"base_image": "host", "command": ["true"]}`)
		body := read(t, resp)
		if resp.StatusCode != test.status || !bytes.Contains(body, []byte(test.want)) || resp.Header.Get("Retry-After") != test.retry || bytes.Contains(body, []byte("/var/lib")) {
			t.Errorf("%v answers %d, %v: %s", test.err, resp.StatusCode, resp.Header, body)
		}
	}
}

// waitForRun waits until a held run has started.
func (b *bench) waitForRun() {
	b.t.Helper()
	select {
	case <-b.world.began:
	case <-b.context().Done():
		b.t.Fatal("no run")
	}
}

// TestWaitEndsWithTheRun: the response is sent when the run ends, before the wait does.
func TestWaitEndsWithTheRun(t *testing.T) {
	onLine(t, func(t *testing.T, b *bench, _ *linetest.Line) {
		answers := make(chan string, 1)
		go func() {
			_, answer := b.start("?wait=true", `{"base_image": "host", "command": ["sleep"], "labels": {"hold": "yes"}}`)
			answers <- answer
		}()
		b.waitForRun()
		select {
		case answer := <-answers:
			t.Fatalf("answered before the end: %s", answer)
		case <-time.After(10 * time.Second): // longer than the timeout of a body, which does not apply to the wait
		}
		b.world.finish("run-1")
		if answer := <-answers; !strings.Contains(answer, `"phase":"completed"`) || !strings.Contains(answer, `"stdout":"sleep"`) {
			t.Error(answer)
		}
	})
}

// TestWaiterGoesAway: if the client disconnects, its wait ends but the run continues.
func TestWaiterGoesAway(t *testing.T) {
	onLine(t, func(t *testing.T, b *bench, _ *linetest.Line) {
		ctx, hangUp := context.WithCancel(b.context())
		gone := make(chan error, 1)
		go func() {
			r, err := http.NewRequestWithContext(ctx, "POST", b.url+prefix+"/runs?wait=true", strings.NewReader(`{"base_image": "host", "command": ["a"], "labels": {"hold": "yes"}}`))
			if err == nil {
				r.Header.Set("X-API-KEY", "alice")
				r.Header.Set("Content-Type", "application/json")
				var resp *http.Response
				if resp, err = b.http.Do(r); err == nil {
					_ = resp.Body.Close()
				}
			}
			gone <- err
		}()
		b.waitForRun()
		hangUp()
		if err := <-gone; err == nil {
			t.Error("answered")
		}
		synctest.Wait() // for the server
		if answer := b.get(prefix+"/runs/run-1", "alice"); !bytes.Contains(answer, []byte(`"phase":"starting"`)) {
			t.Errorf("the run is over: %s", answer)
		}
	})
}

func TestForeground(t *testing.T) {
	b := newBench(t, func(o *rest.Options, _ *api.EdgeOptions) { o.Foreground, o.MaxWait = true, 5*time.Second })
	if status, answer := b.start("", `{"base_image": "host", "command": ["a"]}`); status != http.StatusOK || !strings.Contains(answer, `"stdout":"a"`) {
		t.Errorf("answers %d: %s", status, answer)
	}
	for _, query := range []string{"?wait=false", "?wait=0"} {
		if status, answer := b.start(query, `{"base_image": "host", "command": ["a"]}`); status != http.StatusOK || strings.Contains(answer, "stdout") {
			t.Errorf("%s answers %d: %s", query, status, answer)
		}
	}
	const interactive = `{"spec_version": "1.1", "base_image": "host", "command": ["a"], "interactive": true}`
	if status, answer := b.start("", interactive); status != http.StatusOK || strings.Contains(answer, "stdout") {
		t.Errorf("a run whose input comes later: %d, %s", status, answer)
	}
	if _, answer := b.start("?wait=true", interactive); !strings.Contains(answer, `"stdout":"a"`) {
		t.Errorf("does not wait when asked to: %s", answer)
	}
	if status, answer := b.start("?wait=6s", `{"base_image": "host", "command": ["a"]}`); status != http.StatusBadRequest || !strings.Contains(answer, `"maximum":5`) {
		t.Errorf("answers %d: %s", status, answer)
	}
}

func TestStreamURL(t *testing.T) {
	b := newBench(t, func(o *rest.Options, _ *api.EdgeOptions) {
		o.StreamURL = func(r *http.Request, run belljar.Run) string { return "ws://" + r.Host + "/" + run.ID }
	})
	want := `"log_stream_url":"ws://` + strings.TrimPrefix(b.url, "http://") + `/run-1"`
	if _, answer := b.start("", `{"base_image": "host", "command": ["a"]}`); !strings.Contains(answer, want) {
		t.Error(answer)
	}
	if answer := b.get(prefix+"/runs/run-1", "alice"); !bytes.Contains(answer, []byte(want)) {
		t.Errorf("%s", answer)
	}
}

func TestReadiness(t *testing.T) {
	checks := map[string]rest.Check{"store": {OK: true}, "disk": {OK: false, Detail: "12 MB free, 512 needed"}}
	b := newBench(t, func(o *rest.Options, _ *api.EdgeOptions) {
		o.Ready = func(context.Context) map[string]rest.Check { return checks }
		o.MetricsOpen = true
	})
	resp := b.send("GET", "/readyz", "", nil, "")
	if body := read(t, resp); resp.StatusCode != http.StatusServiceUnavailable || string(body) != `{"status":"not_ready","checks":{"disk":{"ok":false,"detail":"12 MB free, 512 needed"},"store":{"ok":true}}}`+"\n" {
		t.Errorf("answers %d: %s", resp.StatusCode, body)
	}
	checks["disk"] = rest.Check{OK: true}
	b.get("/readyz", "")
	if got := string(b.get("/metrics", "")); got != "up 1\n" {
		t.Errorf("metrics %q", got)
	}
}

func TestNew(t *testing.T) {
	for name, opts := range map[string]rest.Options{"no engine": {Auth: apitest.Callers()}, "no authenticator": {Engine: newWorld()}} {
		if _, err := rest.New(opts); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSpecVersions: the server's list of versions restricts clients. Belljar's own routes have no version.
func TestSpecVersions(t *testing.T) {
	b := newBench(t, func(o *rest.Options, _ *api.EdgeOptions) { o.SpecVersions = []string{"1.0"} })
	run, scoped := `"base_image": "host", "command": ["true"]`, `"base_image": "host", "scope": {"namespace": "user", "id": "a"}`
	const newer = `{"error":{"code":"invalid_spec_version","message":"Unsupported spec_version '1.1'","details":{"provided":"1.1","supported":["1.0"]}}}`
	for _, test := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/runs", `{"spec_version": "1.0", ` + run + `}`, 200, ""},
		{"/runs", `{"spec_version": "1.1", ` + run + `}`, 400, newer},
		{"/runs", `{` + run + `}`, 400, `"message":"spec_version is required","details":{"field":"spec_version","provided":"","supported":["1.0"]}`},
		{"/runs", `{"spec_version": "0.9'\n", ` + run + `}`, 400, `"message":"Unsupported spec_version '0.9'\\n'"`},
		{"/runs", `{"spec_version": "2.0", "programs": [{}], "command": "true"}`, 400, `"message":"Unsupported spec_version '2.0'"`},
		{"/runs", `{"spec_version": 1.0, ` + run + `}`, 400, `"code":"invalid_spec_version","message":"spec_version must be a string","details":{"field":"spec_version","provided":"1.0","supported":["1.0"]}`},
		{"/runs", `{"spec_version": null, "base_image": 1}`, 400, `"message":"base_image must be a string`},
		{"/runs", `{"spec_version": "1.0", "programs": [{}], ` + run + `}`, 400, `"message":"unknown field \"programs\""`},
		{"/sessions", `{"spec_version": "1.0", "base_image": "host"}`, 200, ""},
		{"/sessions", `{"spec_version": "1.1", "base_image": "host"}`, 400, newer},
		{"/sessions", `{"spec_version": [1], "base_image": "host"}`, 400, `"details":{"field":"spec_version","provided":"[1]","supported":["1.0"]}`},
		{"/sessions/open", `{` + scoped + `}`, 200, ""},
		{"/sessions/open", `{"spec_version": "1.1", ` + scoped + `}`, 400, newer},
		{"/sessions/session-1/exec", `{"cmd": ["true"]}`, 200, ""},
	} {
		resp := b.send("POST", prefix+test.path, "alice", nil, test.body)
		if body := string(read(t, resp)); resp.StatusCode != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s %s answers %d, want %d: %s", test.path, test.body, resp.StatusCode, test.status, body)
		}
	}
}
