//go:build linux

package rest_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/internal/api/stream"
	"github.com/belljar/belljar/internal/blob/dir"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/apitest"
)

// operatorOr authenticates the operator and the service's API keys.
type operatorOr struct{ *service.Service }

func (a operatorOr) Authenticate(r *http.Request) (belljar.Caller, error) {
	key := r.Header.Get("X-API-KEY")
	if c, ok := apitest.Callers()[key]; ok {
		return c, nil
	}
	return a.Service.Authenticate(r.Context(), key)
}

// newEngine starts a server with the real service on the fake runtime.
func newEngine(t *testing.T, change ...func(*service.Options)) *bench {
	t.Helper()
	blobs, err := dir.Open(dir.Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	grace := func(o *service.Options) { o.Blobs, o.Limits.GraceSec = blobs, 60 }
	s := apitest.NewWorld(t, nil, append([]func(*service.Options){grace}, change...)...).Service
	streams, err := stream.New(stream.Options{
		Engine: s, Auth: operatorOr{s}, Secret: []byte("0123456789abcdef0123456789abcdef"), SignedURLs: true,
		URL: func(r *http.Request, path string) string { return "ws://" + r.Host + path },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = streams.Close() })
	return serve(t, rest.Options{Engine: s, Auth: operatorOr{s}, StreamURL: streams.RunURL, Version: "1"}, api.EdgeOptions{}, streams)
}

// ask sends JSON, checks the status and decodes the response into out.
func (b *bench) ask(status int, method, path, as, body string, out any, headers ...string) {
	b.t.Helper()
	header := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	resp := b.send(method, prefix+path, as, header, body)
	got := read(b.t, resp)
	if resp.StatusCode != status {
		b.t.Fatalf("%s %s answers %d, want %d: %s", method, path, resp.StatusCode, status, got)
	}
	if out != nil {
		if err := json.Unmarshal(got, out); err != nil {
			b.t.Fatalf("%s %s: %v in %s", method, path, err, got)
		}
	}
}

type answer struct {
	belljar.Run
	RunID string `json:"run_id"`
	*belljar.Output
}

type refusal struct {
	Error belljar.Error `json:"error"`
}

// TestEndToEnd is the sandbox API's example: a session, a file, a run, its artifact.
func TestEndToEnd(t *testing.T) {
	b := newEngine(t)
	var session belljar.Session
	b.ask(200, "POST", "/sessions", "alice", `{"spec_version": "1.0", "base_image": "host", "timeout_sec": 300, "network_policy": "deny_all", "workspace_exec": true}`, &session)
	if session.ID == "" || session.PolicyHash == "" || session.ExpiresAt.IsZero() || session.State != belljar.SessionActive {
		t.Fatalf("%+v", session)
	}
	var result belljar.UploadResult
	contentType, body := form(t, [3]string{"files", "src/main.sh", "echo Hello from sandbox; echo to stderr >&2; echo '{}' > results.json; ln -s /etc/passwd link"})
	b.ask(200, "POST", "/sessions/"+session.ID+"/files", "alice", body, &result, "Content-Type", contentType)
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	if err := w.WriteHeader(&tar.Header{Name: "data.txt", Mode: 0o644, Size: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("hi")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b.ask(200, "POST", "/sessions/"+session.ID+"/files?dir=in", "alice", packed.String(), &result, "Content-Type", "application/x-tar")
	if result.FileCount != 1 || result.BytesReceived != 2 || result.SessionID != session.ID {
		t.Errorf("%+v", result)
	}

	var run answer
	b.ask(200, "POST", "/runs?wait=600s", "alice", fmt.Sprintf(`{"spec_version": "1.0", "session_id": %q, "command": ["/bin/sh", "-c", "cat in/data.txt; . src/main.sh"], "capture_patterns": ["**/*.json", "link"]}`, session.ID), &run)
	if run.RunID != run.ID || run.SessionID != session.ID || run.Phase != belljar.PhaseCompleted || *run.ExitCode != 0 || run.Output == nil {
		t.Fatalf("%+v", run)
	}
	if run.Stdout != "hiHello from sandbox\n" || run.Stderr != "to stderr\n" {
		t.Errorf("stdout %q, stderr %q", run.Stdout, run.Stderr)
	}
	var shown belljar.Run
	b.ask(200, "GET", "/runs/"+run.ID, "alice", "", &shown)
	if shown.ResourceUsage == nil || shown.ResourceUsage.LogBytes == 0 || shown.ResourceUsage.Limits == nil || shown.PolicyHash != session.PolicyHash {
		t.Errorf("%+v", shown)
	}
	var list struct {
		Items []struct {
			Path, Type string
			Size       int64
			URL        string `json:"download_url"`
		}
	}
	b.ask(200, "GET", "/runs/"+run.ID+"/artifacts", "alice", "", &list)
	if len(list.Items) != 2 || list.Items[0].Path != "link" || list.Items[0].Type != "link" || list.Items[0].URL != "" || list.Items[1].Size != 3 {
		t.Fatalf("%+v", list)
	}
	if got := b.get(list.Items[1].URL, "alice"); string(got) != "{}\n" {
		t.Errorf("artifact %q", got)
	}
	resp := b.send("GET", list.Items[1].URL, "alice", ranged("bytes=-2"), "")
	if got := read(t, resp); resp.StatusCode != 206 || string(got) != "}\n" {
		t.Errorf("range answers %d, %q", resp.StatusCode, got)
	}
	b.ask(404, "GET", "/runs/"+run.ID+"/artifacts/link", "alice", "", nil)
	b.ask(404, "GET", strings.TrimPrefix(list.Items[1].URL, prefix), "bob", "", nil)
	b.ask(404, "GET", "/runs/"+run.ID, "bob", "", nil)
	b.ask(204, "DELETE", "/sessions/"+session.ID, "alice", "", nil)
	b.ask(204, "DELETE", "/sessions/"+session.ID, "alice", "", nil)
	b.ask(409, "POST", "/runs", "alice", fmt.Sprintf(`{"spec_version": "1.0", "session_id": %q, "command": ["true"]}`, session.ID), nil)
}

// TestRefusedByTheService checks that errors of the service keep their details.
func TestRefusedByTheService(t *testing.T) {
	b := newEngine(t)
	for body, want := range map[string]struct {
		status int
		code   belljar.Code
		detail string
	}{
		`{"spec_version": "0.9", "base_image": "host", "command": ["true"]}`:                                                 {400, belljar.CodeInvalidSpecVersion, "supported"},
		`{"base_image": "host", "command": ["true"]}`:                                                                        {400, belljar.CodeInvalidSpecVersion, "supported"},
		`{"spec_version": "1.0", "command": ["true"]}`:                                                                       {400, belljar.CodeInvalidRequest, "field"},
		`{"spec_version": "1.0", "base_image": "host", "session_id": "x", "command": ["true"]}`:                              {400, belljar.CodeInvalidRequest, "field"},
		`{"spec_version": "1.0", "base_image": "host"}`:                                                                      {400, belljar.CodeInvalidRequest, "field"},
		`{"spec_version": "1.0", "base_image": "host", "command": []}`:                                                       {400, belljar.CodeInvalidRequest, "field"},
		`{"spec_version": "1.0", "base_image": "host", "command": ["a\u0000"]}`:                                              {400, belljar.CodeInvalidRequest, "field"},
		`{"spec_version": "1.0", "base_image": "host", "command": ["true"], "files": [{"path": "../a", "content_b64": ""}]}`: {400, belljar.CodeInvalidRequest, "field"},
		`{"spec_version": "1.0", "base_image": "host", "command": ["true"], "interactive": true}`:                            {400, belljar.CodeInvalidRequest, "field"},
		`{"spec_version": "1.0", "base_image": "host", "command": ["true"], "resources": {"cpu": 400}}`:                      {403, belljar.CodePolicyDenied, "maximum"},
		`{"spec_version": "1.0", "base_image": "host", "command": ["true"], "network_policy": "allow_all"}`:                  {403, belljar.CodePolicyDenied, "supported"},
		`{"spec_version": "1.0", "base_image": "host", "command": ["true"], "runtime": "firecracker"}`:                       {503, belljar.CodeRuntimeUnavailable, "runtime"},
		`{"spec_version": "1.0", "session_id": "01a1fe09-3c2e-7bd1-a554-32cc63b6c308", "command": ["true"]}`:                 {404, belljar.CodeNotFound, ""},
	} {
		var got refusal
		b.ask(want.status, "POST", "/runs", "alice", body, &got)
		if got.Error.Code != want.code || want.detail != "" && got.Error.Details[want.detail] == nil {
			t.Errorf("%s: %+v", body, got.Error)
		}
	}
	var got refusal
	b.ask(400, "POST", "/sessions", "alice", `{"spec_version": "7", "base_image": "host"}`, &got)
	if got.Error.Code != belljar.CodeInvalidSpecVersion || got.Error.Details["provided"] != "7" {
		t.Errorf("%+v", got.Error)
	}
}

// TestIdempotency: a repeated request gets the same response, even concurrently, and a different request gets 409.
func TestIdempotency(t *testing.T) {
	b := newEngine(t)
	const body = `{"spec_version": "1.0", "base_image": "host", "command": ["/bin/echo", "once"]}`
	answers := make([]answer, 8)
	var crowd sync.WaitGroup
	for i := range answers {
		crowd.Go(func() { b.ask(200, "POST", "/runs?wait=200", "alice", body, &answers[i], "Idempotency-Key", "k1") })
	}
	crowd.Wait()
	created := 0
	for _, a := range answers {
		if a.ID != answers[0].ID || a.Details == nil || a.Details.Key != "k1" || a.Stdout != "once\n" {
			t.Errorf("%+v", a)
		}
		if a.Details.Status == "created" {
			created++
		}
	}
	if created != 1 {
		t.Errorf("%d were the first", created)
	}
	var conflict refusal
	b.ask(409, "POST", "/runs", "alice", strings.Replace(body, "once", "twice", 1), &conflict, "Idempotency-Key", "k1")
	if d := conflict.Error.Details; conflict.Error.Code != belljar.CodeIdempotency || d["prior_id"] != answers[0].ID || d["key"] != "k1" || d["prior_created_at"] == nil {
		t.Errorf("%+v", conflict.Error)
	}
	var other answer
	b.ask(200, "POST", "/runs?wait=200", "bob", body, &other, "Idempotency-Key", "k1")
	if other.ID == answers[0].ID {
		t.Error("bob got alice's run")
	}
	b.ask(400, "POST", "/runs", "alice", body, nil, "Idempotency-Key", strings.Repeat("k", 129))
	var keys struct{ Items []belljar.KeyEntry }
	b.ask(200, "GET", "/admin/idempotency?endpoint=runs&user_id=alice", "root", "", &keys)
	if len(keys.Items) != 1 || keys.Items[0].ObjectID != answers[0].ID {
		t.Errorf("%+v", keys)
	}
}

func TestCancelARun(t *testing.T) {
	b := newEngine(t)
	var run answer
	b.ask(200, "POST", "/runs", "alice", `{"spec_version": "1.0", "base_image": "host", "command": ["/bin/sleep", "1000"], "timeout_sec": 1000}`, &run)
	b.ask(404, "POST", "/runs/"+run.ID+"/cancel", "bob", "", nil)
	b.ask(200, "POST", "/runs/"+run.ID+"/cancel", "alice", "", nil)
	b.ask(200, "POST", "/runs/"+run.ID+"/cancel", "alice", "", nil)
	shown := b.ended(run.ID)
	if shown.Phase != belljar.PhaseKilled || shown.Message != "canceled_by_user" {
		t.Errorf("%+v", shown)
	}
	var again struct{ Status string }
	b.ask(200, "POST", "/runs/"+run.ID+"/cancel", "alice", "", &again)
	if again.Status != "finished" {
		t.Errorf("%+v", again)
	}
}

// ended polls alice's run until it has ended.
func (b *bench) ended(id string) (run belljar.Run) {
	b.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	ctx := b.context()
	for !run.Phase.Terminal() {
		select {
		case <-tick.C:
			b.ask(200, "GET", "/runs/"+id, "alice", "", &run)
		case <-ctx.Done():
			b.t.Fatalf("the run does not end: %+v", run)
		}
	}
	return run
}

func TestQueueFull(t *testing.T) {
	b := newEngine(t, func(o *service.Options) { o.Concurrency, o.QueueLength = 1, 1 })
	const sleep = `{"spec_version": "1.0", "base_image": "host", "command": ["/bin/sleep", "1000"], "timeout_sec": 1000}`
	var first, second answer
	b.ask(200, "POST", "/runs", "alice", sleep, &first)
	b.ask(202, "POST", "/runs", "alice", sleep, &second)
	if second.Phase != belljar.PhaseQueued || second.EstimatedStartTime == nil {
		t.Errorf("%+v", second.Run)
	}
	resp := b.send("POST", prefix+"/runs", "alice", nil, sleep)
	if got := read(t, resp); resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("answers %d, %v: %s", resp.StatusCode, resp.Header, got)
	}
	for _, id := range []string{second.ID, first.ID} {
		b.ask(200, "POST", "/runs/"+id+"/cancel", "alice", "", nil)
		b.ended(id)
	}
}

// TestOperators: API keys, quotas, all users' runs.
func TestOperators(t *testing.T) {
	b := newEngine(t)
	var token belljar.Token
	b.ask(200, "POST", "/admin/tokens", "root", `{"user_id": "carol", "name": "laptop"}`, &token)
	if token.Secret == "" {
		t.Fatalf("%+v", token)
	}
	var run answer
	b.ask(200, "POST", "/runs?wait=200", token.Secret, `{"spec_version": "1.0", "base_image": "host", "command": ["/bin/true"], "labels": {"a": "b"}}`, &run)
	var page belljar.RunPage
	b.ask(200, "GET", "/admin/runs?user_id=carol&phase=completed&base_image=host&sort=finished_at:desc&started_at_from=2020-01-01&finished_at_to=2999-01-01T00:00:00Z", "root", "", &page)
	if page.Total != 1 || page.Items[0].ID != run.ID || page.Items[0].UserID != "carol" {
		t.Errorf("%+v", page)
	}
	b.ask(200, "GET", "/admin/runs/"+run.ID, "root", "", nil)
	for body, want := range map[string]belljar.Quota{`{}`: {Own: true}, `{"concurrent_runs": 1}`: {ConcurrentRuns: 1, Own: true}, `{"memory_mb": 4096, "own": false}`: {MemoryMB: 4096, Own: true}} { // what is left out has no limit
		got := belljar.Quota{LogMB: -1}
		b.ask(200, "PUT", "/admin/quotas/carol", "root", body, &got)
		if got.LogMB = max(got.LogMB, 0); got != want {
			t.Errorf("%s gives %+v", body, got)
		}
	}
	b.ask(200, "PUT", "/admin/quotas/carol", "root", `{"concurrent_runs": 1, "cpu_seconds_per_day": 3600, "artifact_mb": 5}`, nil)
	var me belljar.Me
	b.ask(200, "GET", "/me", token.Secret, "", &me)
	if me.UserID != "carol" || me.Quota.ArtifactMB != 5 || me.PolicyHash != run.PolicyHash || len(me.Policy) == 0 {
		t.Errorf("%+v", me)
	}
	b.ask(200, "GET", "/admin/usage", "root", "", nil)
	b.ask(403, "GET", "/admin/usage", token.Secret, "", nil)
	var found belljar.Discovery
	b.ask(200, "GET", "/runtimes", token.Secret, "", &found)
	if found.StoreMode != "memory" || len(found.Runtimes) != 1 || !found.Runtimes[0].InteractiveSupported || found.Runtimes[0].MaxUploadMB == 0 {
		t.Errorf("%+v", found)
	}
	b.ask(204, "DELETE", "/admin/tokens/"+token.ID, "root", "", nil)
	b.ask(401, "GET", "/me", token.Secret, "", nil)
}

// TestStreamsOfTheOtherDoor checks the responses of package stream against this door's document.
func TestStreamsOfTheOtherDoor(t *testing.T) {
	b := newEngine(t)
	var run struct {
		answer
		URL string `json:"log_stream_url"`
	}
	b.ask(200, "POST", "/runs?wait=200", "alice", `{"spec_version": "1.0", "base_image": "host", "command": ["/bin/echo", "hello"]}`, &run)
	if !strings.HasPrefix(run.URL, "ws://") || !strings.Contains(run.URL, "/runs/"+run.ID+"/stream?") || !strings.Contains(run.URL, "token=") {
		t.Errorf("stream at %q", run.URL)
	}
	var ticket struct{ Token string }
	b.ask(200, "POST", "/tickets", "alice", "{}", &ticket)
	if got := b.get(prefix+"/runs/"+run.ID+"/logs?token="+ticket.Token, ""); string(got) != "hello\n" {
		t.Errorf("log %q", got)
	}
	b.ask(401, "GET", "/runs/"+run.ID+"/logs?token="+ticket.Token, "", "", nil)
	b.ask(404, "GET", "/runs/"+run.ID+"/logs", "bob", "", nil)
	if got := b.get(prefix+"/runs/"+run.ID+"/logs?format=json", "alice"); !bytes.Contains(got, []byte(`"type":"stdout"`)) {
		t.Errorf("log %q", got)
	}
	b.ask(405, "PUT", "/runs/"+run.ID+"/logs", "alice", "", nil)
}
