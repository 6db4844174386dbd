//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
)

// conversation is a thread's session on a server, through the thread API.
type conversation struct {
	*server
	t  *testing.T
	id string
}

// converse opens a thread, which must be new.
func converse(t *testing.T, s *server, thread string) conversation {
	t.Helper()
	status, made := s.ask(http.MethodPost, "/thread/create_session", map[string]any{"user_id": "user_abc123", "thread_id": thread, "timeout_minutes": 30})
	id, _ := made["session_id"].(string)
	if status != 200 || made["status"] != "created" || id == "" {
		t.Fatalf("create_session: %d %v", status, made)
	}
	return conversation{s, t, id}
}

// run executes a command, checks its exit code, and returns its output.
func (c conversation) run(code int, command string) string {
	c.t.Helper()
	status, done := c.ask(http.MethodPost, "/thread/execute", map[string]any{"session_id": c.id, "command": command, "timeout": 100})
	if status != 200 || done["exit_code"] != float64(code) {
		c.t.Fatalf("%s: %d %v", command, status, done)
	}
	return fmt.Sprint(done["stdout"])
}

// put uploads a file and returns the status and the answer.
func (c conversation) put(name string, content []byte) (int, map[string]any) {
	c.t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	err := form.WriteField("session_id", c.id)
	if err == nil {
		part, partErr := form.CreateFormFile("file", name)
		if err = partErr; err == nil {
			_, err = part.Write(content)
		}
	}
	if err != nil || form.Close() != nil {
		c.t.Fatal(err)
	}
	return c.ask(http.MethodPost, "/thread/upload_file", &b, "Content-Type: "+form.FormDataContentType())
}

// TestThreads checks the thread API's promises in real sandboxes: upload, work, download; the commands' user and directory; the
// isolation of threads; and that a thread finds its session again after the server was killed.
func TestThreads(t *testing.T) {
	data := t.TempDir()
	args := []string{"--set", "max_sessions=2", "--set", "workspace_cap_mb=8", "--set", "thread_max_file_mb=6"}
	s := serve(t, data, args...)
	a, b := converse(t, s, "a"), converse(t, s, "b")

	if status, up := a.put("data.json", []byte(`[{"id": 1, "amount": 150}, {"id": 2, "amount": 50}]`)); status != 200 || up["path"] != "/workspace/data.json" {
		t.Fatalf("%d %v", status, up)
	}
	a.run(0, `python3 -c 'import json; print(json.dumps({"total": sum(x["amount"] for x in json.load(open("data.json")))}))' > total.json`)
	if status, down := s.ask(http.MethodPost, "/thread/download_file", map[string]any{"session_id": a.id, "filename": "total.json"}); status != 200 || down["total"] != 200.0 {
		t.Errorf("%d %v", status, down)
	}
	b.run(1, "cat total.json")

	who := a.run(0, `python3 -c 'import os; print(os.getuid() > 0, os.geteuid() > 0, os.getgroups(), os.getcwd(), os.environ["HOME"])'`)
	if who != "True True [] /workspace /workspace\n" {
		t.Errorf("commands run as %q", who)
	}
	if nets := a.run(0, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"); nets != "lo\n" {
		t.Errorf("networks: %q", nets)
	}

	// A command that times out takes all its processes with it.
	status, late := s.ask(http.MethodPost, "/thread/execute", map[string]any{
		"session_id": a.id, "timeout": 0.5, "command": `python3 -c 'import os, time; os.fork(); os.setsid() if os.getpid() != os.getpgid(0) else 0; time.sleep(1000)'`,
	})
	if status != 200 || late["exit_code"] != 124.0 || late["timed_out"] != true {
		t.Errorf("%d %v", status, late)
	}
	if left := a.run(0, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep '[s]leep(1000)' | cat"); left != "" {
		t.Errorf("left over: %q", left)
	}

	// Files that a program writes count as much as uploads.
	a.run(1, `python3 -c 'open("big", "wb").write(bytes(9 << 20))'`)
	if status, full := a.put("more", make([]byte, 5<<20)); status != 507 || full["error"] != "Workspace size limit exceeded" || full["max_workspace_mb"] != 8.0 {
		t.Errorf("a full workspace: %d %v", status, full)
	}
	if status, large := a.put("large", make([]byte, 7<<20)); status != 413 || large["max_size_mb"] != 6.0 {
		t.Errorf("a large file: %d %v", status, large)
	}
	status, none := s.ask(http.MethodPost, "/thread/create_session", map[string]any{"user_id": "u", "thread_id": "one too many"})
	if status != 503 || none["error"] != "Pool at max capacity" {
		t.Errorf("a full node: %d %v", status, none)
	}
	figures := s.text("/metrics")
	for _, line := range []string{
		`sandbox_thread_events_total{event="session_created"} 2`, `sandbox_thread_events_total{event="file_uploaded"} 1`,
		`sandbox_thread_events_total{event="resource_limit_exceeded"} 3`, `sandbox_thread_events_total{event="validation_failed"} 0`,
		"sandbox_thread_workspace_bytes_sum 51", "sandbox_thread_workspace_bytes_count 1", `sandbox_sessions{runtime="native"} 2`,
	} {
		if !strings.Contains(figures, "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	if series := s.text(api + "/admin/metrics"); !strings.Contains(series, `{"labels":{"event":"session_created"},"value":2}`) {
		t.Errorf("as JSON: %s", series)
	}
	s.kill()

	s = serve(t, data, args...)
	for _, was := range []conversation{a, b} {
		was.server = s
		was.run(0, "date")
	}
	status, again := s.ask(http.MethodPost, "/thread/create_session", map[string]any{"user_id": "user_abc123", "thread_id": "a"})
	if status != 409 || again["status"] != "existing" || again["session_id"] != a.id {
		t.Errorf("after a kill: %d %v", status, again)
	}
	a.server = s
	if got := a.run(0, "cat total.json"); got != "{\"total\": 200}\n" {
		t.Errorf("after a kill: %q", got)
	}
	for _, id := range []string{a.id, b.id} {
		if status, gone := s.ask(http.MethodPost, "/thread/cleanup", map[string]any{"session_id": id}); status != 200 || gone["status"] != "cleaned_up" {
			t.Errorf("%d %v", status, gone)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}

// TestThreadImage: threads have the server's configured image.
func TestThreadImage(t *testing.T) {
	s := serve(t, t.TempDir(), "--set", "default_image=absent:1", "--set", "image_pull=never")
	status, made := s.ask(http.MethodPost, "/thread/create_session", map[string]any{"user_id": "user_abc123", "thread_id": "a"})
	if status == 200 || !strings.Contains(fmt.Sprint(made["error"]), "absent:1") {
		t.Errorf("%d %v", status, made)
	}
}
