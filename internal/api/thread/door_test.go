//go:build linux

package thread_test

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/thread"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/apitest"
)

// TestConversation replays the examples of the thread API in order.
func TestConversation(t *testing.T) {
	w := newWorld(t, nil)
	created := w.post("create_session", `{"user_id": "user_abc123", "thread_id": "thread_xyz789", "timeout_minutes": 30}`)
	created.want(t, 200, map[string]any{"thread_id": "thread_xyz789", "status": "created", "workspace_dir": "/workspace", "user": "sandboxuser"})
	id := created.body["session_id"].(string)
	if at, err := time.Parse(time.RFC3339, created.body["expires_at"].(string)); err != nil || time.Until(at) < 29*time.Minute {
		t.Errorf("expires_at %v, %v", created.body["expires_at"], err)
	}
	again := w.post("create_session", `{"user_id": "user_abc123", "thread_id": "thread_xyz789"}`)
	again.want(t, 409, map[string]any{"session_id": id, "thread_id": "thread_xyz789", "status": "existing", "workspace_dir": "/workspace"})
	for _, name := range []string{"created_at", "last_activity"} {
		if _, err := time.Parse(time.RFC3339, fmt.Sprint(again.body[name])); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.get("get_session?thread_id=thread_xyz789").want(t, 200, map[string]any{"session_id": id, "status": "active", "files_count": 0})
	w.get("get_session?thread_id=thread_none").want(t, 404, map[string]any{
		"error": "No active session found for thread_id", "thread_id": "thread_none",
	})

	w.upload(field{"session_id", "", id}, field{"file", "data.json", `[{"id": 1, "amount": 150}, {"id": 2, "amount": 50}]`}).want(t, 200, map[string]any{
		"status": "uploaded", "filename": "data.json", "path": "/workspace/data.json", "size_bytes": 51,
	})
	w.run(id, "grep -o '\"amount\": [0-9]*' data.json | head -1; echo oops >&2").want(t, 200, map[string]any{
		"exit_code": 0, "stdout": "\"amount\": 150\n", "stderr": "oops\n",
	})
	w.run(id, "sort data.json > output.csv; exit 3").want(t, 200, map[string]any{"exit_code": 3})
	file := w.post("download_file", `{"session_id": "`+id+`", "filename": "output.csv"}`)
	if file.status != 200 || !strings.Contains(file.raw, "amount") || file.header.Get("Content-Type") != "application/octet-stream" ||
		file.header.Get("Content-Disposition") != `attachment; filename="output.csv"` || file.header.Get("Content-Length") != fmt.Sprint(len(file.raw)) {
		t.Errorf("download: %d %v %q", file.status, file.header, file.raw)
	}
	w.post("download_file", `{"session_id": "`+id+`", "filename": "none.csv"}`).want(t, 404, map[string]any{
		"error": "File not found in workspace", "filename": "none.csv", "workspace_dir": "/workspace",
	})
	list := w.get("list_files?session_id=" + id)
	list.want(t, 200, map[string]any{"session_id": id, "workspace_dir": "/workspace", "total_files": 2})
	var names []string
	for _, f := range list.body["files"].([]any) {
		entry := f.(map[string]any)
		names = append(names, fmt.Sprint(entry["name"]))
		if _, err := time.Parse(time.RFC3339, entry["modified"].(string)); err != nil || !strings.HasPrefix(entry["permissions"].(string), "-rw") || len(entry["permissions"].(string)) != 10 {
			t.Errorf("%v: %v", entry, err)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"data.json", "output.csv"}) {
		t.Errorf("files %q", names)
	}
	w.run(id, "rm -rf /workspace/*").want(t, 400, map[string]any{
		"error": `Command contains forbidden pattern: \brm\b`, "command": "rm -rf /workspace/*", "forbidden_pattern": `\brm\b`,
	})
	w.run(id, "nmap x").want(t, 400, map[string]any{"command": "nmap x"})
	w.run(id, "nmap "+strings.Repeat("é", 200)).want(t, 400, map[string]any{"command": "nmap " + strings.Repeat("é", 195)})
	w.post("cleanup", `{"session_id": "`+id+`"}`).want(t, 200, map[string]any{"status": "cleaned_up", "session_id": id})
	w.post("cleanup", `{"session_id": "`+id+`"}`).want(t, 200, map[string]any{"status": "cleaned_up"})
	w.run(id, "ls").want(t, 404, map[string]any{"error": "Invalid or expired session", "session_id": id})
	for name, n := range map[string]int{
		"session_created": 1, "session_reused": 2, "command_executed": 1, "command_failed": 2, "file_uploaded": 1, "file_downloaded": 1, "validation_failed": 3,
	} {
		if got := w.log.has(name); len(got) != n {
			t.Errorf("%d lines of %s, want %d: %q", len(got), name, n, got)
		}
	}
	if got := w.log.has("command_executed")[0]; !strings.HasPrefix(got, "[SANDBOX] event=command_executed user=user_abc thread=thread_xyz78 session="+id[:12]+" command=") ||
		!strings.Contains(got, " exit_code=0 duration_ms=") {
		t.Error(got)
	}
}

func TestSessionsOfThreads(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.open("a"), w.open("b")
	if a == b {
		t.Fatal("two threads have one session")
	}
	w.run(a, "echo secret > f").want(t, 200, map[string]any{"exit_code": 0})
	w.run(b, "cat f").want(t, 200, map[string]any{"exit_code": 1})
	w.run(a, "cat f").want(t, 200, map[string]any{"stdout": "secret\n"})

	// Another caller has their own threads and cannot see these.
	other := w.send("bob", "POST", "/thread/create_session", "application/json", strings.NewReader(`{"user_id":"user_abc123","thread_id":"a"}`))
	other.want(t, 200, map[string]any{"status": "created"})
	if other.body["session_id"] == a {
		t.Error("bob has alice's session")
	}
	for _, call := range []struct{ method, path, body string }{
		{"POST", "execute", `{"session_id":"` + a + `","command":"ls"}`}, {"GET", "list_files?session_id=" + a, ""},
		{"POST", "download_file", `{"session_id":"` + a + `","filename":"f"}`}, {"POST", "cleanup", `{"session_id":"` + a + `"}`},
		{"GET", "get_session?thread_id=b", ""},
	} {
		got := w.send("bob", call.method, "/thread/"+call.path, "application/json", strings.NewReader(call.body))
		if got.status != 404 || got.body["error"] == nil {
			t.Errorf("%s: %d %s", call.path, got.status, got.raw)
		}
	}
	w.run(a, "ls").want(t, 200, nil)
	if got := w.send("", "GET", "/thread/get_session?thread_id=a", "", nil); got.status != 401 || got.body["error"] != "no key of this server" {
		t.Errorf("a stranger: %d %s", got.status, got.raw)
	}
	if got := w.send("", "GET", "/thread/health", "", nil); got.status != 200 || strings.TrimSpace(string(got.raw)) != `{"status":"healthy"}` {
		t.Errorf("health without a key: %d %s", got.status, got.raw)
	}
	w.send("alice", "GET", "/thread/health", "", nil).want(t, 200, map[string]any{"status": "healthy", "redis_connected": false, "worker_id": "worker1"})
}

func TestSessionsExpire(t *testing.T) {
	w := newWorld(t, nil)
	id := w.open("a")
	w.clock.pass(29 * time.Minute)
	w.run(id, "ls").want(t, 200, nil)
	w.clock.pass(29 * time.Minute)
	w.run(id, "ls").want(t, 200, nil)
	// The response is sent before the run releases its session, which counts as use, so the idle time starts later.
	expired := w.run(id, "ls")
	for deadline := time.Now().Add(patience); expired.status == 200 && time.Now().Before(deadline); expired = w.run(id, "ls") {
		w.clock.pass(31 * time.Minute)
	}
	expired.want(t, 404, map[string]any{"error": "Invalid or expired session"})
	w.get("get_session?thread_id=a").want(t, 404, nil)
	if again := w.open("a"); again == id {
		t.Error("an expired session came back")
	}
	if got := w.log.await(t, "session_expired"); len(got) != 1 || !strings.Contains(got[0], "user=user_abc thread=a session="+id[:12]) {
		t.Errorf("session_expired: %q", got)
	}
}

func TestTimeoutIsEnforced(t *testing.T) {
	w := newWorld(t, nil)
	id := w.open("a")
	for limit := 1; ; limit *= 4 { // on a busy machine the command may not have started
		got := w.post("execute", fmt.Sprintf(`{"session_id":%q,"command":"echo begun; touch begun; sleep 10000","timeout":%d}`, id, limit))
		got.want(t, 200, map[string]any{"exit_code": 124, "timed_out": true})
		if !strings.HasPrefix(got.body["stderr"].(string), "sandbox: ") {
			t.Errorf("stderr %q", got.body["stderr"])
		}
		if w.get("list_files?session_id=" + id).body["total_files"] == 1.0 {
			got.want(t, 200, map[string]any{"stdout": "begun\n"})
			break
		}
	}
	w.run(id, "echo still here").want(t, 200, map[string]any{"stdout": "still here\n"})
}

func TestUploadLimits(t *testing.T) {
	w := newWorld(t, func(o *thread.Options) { o.MaxFileMB, o.MaxFiles, o.MaxWorkspaceMB = 1, 3, 2 })
	id := w.open("a")
	big := strings.Repeat("x", 1<<20)
	w.upload(field{"session_id", "", id}, field{"file", "f", big + "y"}).want(t, 413, map[string]any{
		"error": "File size exceeds maximum allowed size", "max_size_mb": 1,
	})
	w.upload(field{"file", "a", big}, field{"session_id", "", id}).want(t, 200, map[string]any{"size_bytes": 1 << 20}) // in any order
	w.upload(field{"session_id", "", id}, field{"filename", "", "sub/dir/b.txt"}, field{"file", "x", "b"}).want(t, 200, map[string]any{
		"filename": "sub/dir/b.txt", "path": "/workspace/sub/dir/b.txt",
	})
	full := w.upload(field{"session_id", "", id}, field{"file", "c", big})
	full.want(t, 507, map[string]any{"error": "Workspace size limit exceeded", "max_workspace_mb": 2, "file_size_mb": 1})
	w.upload(field{"session_id", "", id}, field{"file", "c", "c"}).want(t, 200, nil)
	w.upload(field{"session_id", "", id}, field{"file", "d", "d"}).want(t, 507, map[string]any{
		"error": "Maximum file count exceeded", "max_files": 3, "current_files": 3,
	})
	w.run(id, "cat sub/dir/b.txt c").want(t, 200, map[string]any{"stdout": "bc"})
	if got := w.log.has("resource_limit_exceeded"); len(got) != 3 {
		t.Errorf("%q", got)
	}
}

// TestUploadToEndedSession checks that an upload to an ended session is refused for that reason, whatever its file.
func TestUploadToEndedSession(t *testing.T) {
	w := newWorld(t, func(o *thread.Options) { o.MaxFileMB = 1 })
	id := w.open("a")
	w.post("cleanup", `{"session_id":"`+id+`"}`).want(t, 200, nil)
	for _, content := range []string{"x", strings.Repeat("x", 1<<20+1)} {
		w.upload(field{"session_id", "", id}, field{"file", "f", content}).want(t, 404, map[string]any{"error": "Invalid or expired session", "session_id": id})
	}
}

// TestNamesOfDownloads checks that the header of a download has the file's name, for any name.
func TestNamesOfDownloads(t *testing.T) {
	w := newWorld(t, nil)
	id := w.open("a")
	for _, name := range []string{"output.csv", "two words", `a"b`, "é.txt", "a;b=c"} {
		w.upload(field{"session_id", "", id}, field{"filename", "", "in/" + name}, field{"file", "x", "x"}).want(t, 200, nil)
		got := w.post("download_file", fmt.Sprintf(`{"session_id":%q,"filename":%q}`, id, "in/"+name))
		if _, params, err := mime.ParseMediaType(got.header.Get("Content-Disposition")); err != nil || params["filename"] != name {
			t.Errorf("%s: %d %q, %v", name, got.status, got.header.Get("Content-Disposition"), err)
		}
	}
}

// A file of the list can be downloaded, also with a name that an upload refuses.
func TestListedNames(t *testing.T) {
	w := newWorld(t, nil)
	id := w.open("a")
	for _, name := range []string{`a\b`, "a..b", `\`, "..."} {
		w.run(id, "printf x > '"+name+"'").want(t, 200, map[string]any{"exit_code": 0})
		got := w.post("download_file", fmt.Sprintf(`{"session_id":%q,"filename":%q}`, id, name))
		if _, params, err := mime.ParseMediaType(got.header.Get("Content-Disposition")); got.status != 200 || got.raw != "x" || err != nil || params["filename"] != name {
			t.Errorf("%s: %d %s, %v", name, got.status, got.raw, err)
		}
		w.upload(field{"session_id", "", id}, field{"filename", "", name}, field{"file", "x", "y"}).want(t, 400, map[string]any{"error": "Invalid filename"})
	}
	for _, name := range []string{"../a", "a/../../b", "..", "/etc/passwd", "."} {
		w.post("download_file", fmt.Sprintf(`{"session_id":%q,"filename":%q}`, id, name)).want(t, 400, map[string]any{"error": "Invalid filename"})
	}
}

// TestImageWithoutBash checks that the result gives the reason why the command did not run.
func TestImageWithoutBash(t *testing.T) {
	ref, image := apitest.WithImage(t, map[string]any{"Env": []string{"PATH=/nowhere"}})
	in := apitest.NewWorld(t, nil, image)
	w := newWorld(t, func(o *thread.Options) { o.Engine, o.Image = in.Service, ref })
	w.run(w.open("a"), "ls").want(t, 200, map[string]any{
		"exit_code": 127, "stdout": "", "stderr": "sandbox: bash: not found in the sandbox\n", "reason_code": "exec_failed",
	})
}

// TestApproval checks that a session that waits for an operator is not reported as expired: a client would make another
// one.
func TestApproval(t *testing.T) {
	in := apitest.NewWorld(t, nil, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.Approval = []string{"cpu>0.5"}
	})
	w := newWorld(t, func(o *thread.Options) { o.Engine = in.Service })
	id := w.open("a")
	w.get("get_session?thread_id=a").want(t, 200, map[string]any{"session_id": id, "status": "active", "files_count": 0})
	text := "session " + id + " waits for an operator's approval"
	w.run(id, "ls").want(t, 409, map[string]any{"error": text, "code": "conflict"})
	w.upload(field{"session_id", "", id}, field{"file", "f", "x"}).want(t, 409, map[string]any{"error": text})
	w.get("list_files?session_id="+id).want(t, 409, map[string]any{"error": text})
	w.post("download_file", `{"session_id":"`+id+`","filename":"f"}`).want(t, 409, map[string]any{"error": text})
	w.post("cleanup", `{"session_id":"`+id+`"}`).want(t, 200, nil)
	w.run(id, "ls").want(t, 404, map[string]any{"error": "Invalid or expired session"})
}

// TestPlainUploadLimitsBeyondCounting fills a workspace with more than maxListed entries: the limit must still apply.
func TestPlainUploadLimitsBeyondCounting(t *testing.T) {
	w := newWorld(t, nil)
	id := w.open("a")
	w.run(id, `python3 -c 'import os; [os.mkdir("%05d" % i) for i in range(10001)]'`).want(t, 200, map[string]any{"exit_code": 0})
	w.upload(field{"session_id", "", id}, field{"file", "z", "z"}).want(t, 507, map[string]any{"error": "Maximum file count exceeded", "max_files": 1000})
}

// TestUploadsTakeTurns sends concurrent uploads of which only some fit: only those may pass.
func TestUploadsTakeTurns(t *testing.T) {
	w := newWorld(t, func(o *thread.Options) { o.MaxFiles = 3 })
	id := w.open("a")
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for i := range 12 {
		all.Go(func() {
			got := w.upload(field{"session_id", "", id}, field{"file", fmt.Sprintf("f%d", i), "x"})
			mu.Lock()
			defer mu.Unlock()
			statuses[got.status]++
		})
	}
	all.Wait()
	if statuses[200] != 3 || statuses[507] != 9 {
		t.Errorf("%v", statuses)
	}
}

func TestBadRequests(t *testing.T) {
	w := newWorld(t, nil)
	id := w.open("a")
	for _, c := range []struct {
		name, body string
		status     int
	}{
		{"create_session", `{}`, 400}, {"create_session", `{"user_id":"u"}`, 400}, {"create_session", `{"user_id":"u","thread_id":"t","timeout_minutes":0}`, 400},
		{"create_session", `{"user_id":"u","thread_id":"t","timeout_minutes":-1}`, 400}, {"create_session", `{"user_id":1,"thread_id":"t"}`, 400},
		{"create_session", `{"user_id":"u","thread_id":"t","image":"x"}`, 400}, {"create_session", `nonsense`, 400}, {"create_session", ``, 400},
		{"create_session", `{"user_id":"u","thread_id":"a\u0000b"}`, 400}, {"create_session", `{"user_id":"u","thread_id":"` + strings.Repeat("x", 10000) + `"}`, 400},
		{"create_session", `{"user_id":"u","thread_id":"t","timeout_minutes":1e9}`, 403},
		{"execute", `{"session_id":"` + id + `","command":""}`, 400}, {"execute", `{"session_id":"` + id + `","command":"ls 'x"}`, 400},
		{"execute", `{"session_id":"` + id + `","command":"ls\u0000"}`, 400}, {"execute", `{"session_id":"` + id + `","command":"ls","timeout":0}`, 400},
		{"execute", `{"session_id":"` + id + `","command":"ls","timeout":1e12}`, 403}, {"execute", `{"command":"ls"}`, 400},
		{"execute", `{"session_id":"nobody","command":"ls"}`, 404}, {"execute", `{"session_id":"../x","command":"ls"}`, 404},
		{"cleanup", `{"session_id":"nobody"}`, 404}, {"cleanup", `{}`, 400},
		{"download_file", `{"session_id":"` + id + `"}`, 400}, {"download_file", `{"session_id":"nobody","filename":"x"}`, 404},
	} {
		got := w.post(c.name, c.body)
		if text, ok := got.body["error"].(string); got.status != c.status || !ok || text == "" {
			t.Errorf("%s %.80s: %d %.200s", c.name, c.body, got.status, got.raw)
		}
	}
	for _, path := range []string{"get_session", "get_session?thread_id=", "list_files", "list_files?session_id=a&session_id=b"} {
		if got := w.get(path); got.status != 400 {
			t.Errorf("%s: %d %s", path, got.status, got.raw)
		}
	}
	for _, c := range []struct{ name, body, field, text string }{ // errors of the engine use this API's names and units
		{"create_session", `{"user_id":"u","thread_id":"a\u0000b"}`, "thread_id", "thread_id: contains a control character"},
		{"create_session", `{"user_id":"a\u0000b","thread_id":"t"}`, "user_id", `label "user_id" contains a NUL byte`},
		{"create_session", `{"user_id":"u","thread_id":"t","timeout_minutes":1e9}`, "timeout_minutes", "timeout_minutes is limited to 1440 minutes here, got 1000000000"},
		{"execute", `{"session_id":"` + id + `","command":"ls\u0000"}`, "command", "command contains a NUL byte"},
		{"execute", `{"session_id":"` + id + `","command":"ls","timeout":1e12}`, "timeout", "timeout is limited to 86400 seconds here, got 1000000000000"},
	} {
		if got := w.post(c.name, c.body); got.body["field"] != c.field || got.body["error"] != c.text {
			t.Errorf("%s %.80s: %.200s", c.name, c.body, got.raw)
		}
	}
	w.get("get_session?thread_id=a%00b").want(t, 400, map[string]any{"field": "thread_id", "error": "thread_id: contains a control character"})
	w.get("nothing").want(t, 404, map[string]any{"error": "Not found"})
	w.get("list_files?session_id=nobody").want(t, 404, map[string]any{"error": "Invalid or expired session"})
	w.get("execute").want(t, 405, nil)
	w.upload(field{"session_id", "", id}).want(t, 400, map[string]any{"error": "No file provided"})
	w.upload(field{"file", "f", "x"}).want(t, 400, map[string]any{"error": "session_id required"})
	w.upload().want(t, 400, map[string]any{"error": "session_id required"})
	w.upload(field{"session_id", "", "nobody"}, field{"file", "f", "x"}).want(t, 404, map[string]any{"error": "Invalid or expired session"})
	w.upload(field{"session_id", "", id}, field{"shell", "", "x"}, field{"file", "f", "x"}).want(t, 400, nil)
	w.send("alice", "POST", "/thread/upload_file", "application/json", strings.NewReader("{}")).want(t, 400, nil)
	w.send("alice", "POST", "/thread/upload_file", "multipart/form-data; boundary=x", strings.NewReader("--x\r\nbroken")).want(t, 400, nil)
	w.run(id, "ls").want(t, 200, nil)
}

func TestPathsStayInside(t *testing.T) {
	w := newWorld(t, nil)
	id := w.open("a")
	for _, name := range []string{
		"../x", "..", "a/../../x", "/etc/passwd", "//etc/passwd", "/workspace/../etc/passwd", "\\etc\\passwd", "..\\x", "a\x00b", ".", "",
		"./..", "x/..", strings.Repeat("d/", 600) + "f", strings.Repeat("n", 300),
	} {
		body, err := json.Marshal(map[string]string{"session_id": id, "filename": name})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.post("download_file", string(body)); got.status != http.StatusBadRequest {
			t.Errorf("download %.40q: %d %s", name, got.status, got.raw)
		}
		if got := w.upload(field{"session_id", "", id}, field{"filename", "", name}, field{"file", name, "x"}); got.status != http.StatusBadRequest {
			t.Errorf("upload %.40q: %d %s", name, got.status, got.raw)
		}
	}
	w.run(id, "python3 -c 'import os; os.symlink(\"/etc/passwd\", \"link\"); os.mkfifo(\"pipe\"); os.mkdir(\"dir\")'").want(t, 200, map[string]any{"exit_code": 0})
	for _, name := range []string{"link", "pipe", "dir"} {
		got := w.post("download_file", `{"session_id":"`+id+`","filename":"`+name+`"}`)
		if got.status != 400 && got.status != 404 {
			t.Errorf("%s: %d %s", name, got.status, got.raw)
		}
	}
	w.run(id, "ls").want(t, 200, nil)
}

func TestPlainRootAndCrowd(t *testing.T) {
	w := newWorld(t, func(o *thread.Options) { o.Root = true })
	w.send("alice", "GET", "/health", "", nil).want(t, 200, nil)
	var all sync.WaitGroup
	for i := range 20 { // two for each of ten threads
		all.Go(func() {
			got := w.send("alice", "POST", "/create_session", "application/json", strings.NewReader(fmt.Sprintf(`{"user_id":"u","thread_id":"t%d"}`, i/2)))
			if got.status != 200 && got.status != 409 {
				t.Errorf("%d %s", got.status, got.raw)
			}
		})
	}
	all.Wait()
	for i := range 10 {
		w.get(fmt.Sprintf("get_session?thread_id=t%d", i)).want(t, 200, nil)
	}
	if got := w.log.has("session_created"); len(got) != 10 {
		t.Errorf("%d sessions for ten threads", len(got))
	}
}

// pause is the interval between two checks of a program, which needs the processor itself.
const pause = 10 * time.Millisecond

// TestClientGoesAway checks that a command is cancelled if its client disconnects.
func TestClientGoesAway(t *testing.T) {
	w := newWorld(t, nil)
	id := w.open("a")
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		for w.get("list_files?session_id=" + id).body["total_files"] != 1.0 && ctx.Err() == nil {
			time.Sleep(pause)
		}
		leave()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/thread/execute",
		strings.NewReader(`{"session_id":"`+id+`","command":"touch begun; sleep 3000; touch ended","timeout":3600}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer alice")
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		t.Fatalf("answered %d", resp.StatusCode)
	}
	for deadline := time.Now().Add(patience); ; {
		page, err := w.service.As(belljar.Caller{ID: "alice", Role: belljar.RoleUser}).Runs().List(t.Context(), belljar.RunQuery{SessionID: id})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) == 1 && page.Items[0].Phase == belljar.PhaseKilled {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the command goes on: %+v", page.Items)
		}
		time.Sleep(pause)
	}
}

// revocable records the users of requests, whose credentials can then be revoked.
type revocable struct {
	api.Authenticator
	uses *api.Uses
}

func (a revocable) Authenticate(r *http.Request) (belljar.Caller, error) {
	caller, err := a.Authenticator.Authenticate(r)
	a.uses.Note(r.Context(), a.uses.Revoked(), caller.ID)
	return caller, err
}

// TestRevoked checks that a client whose credentials are revoked gets that as the reason.
func TestRevoked(t *testing.T) {
	var uses api.Uses
	w := newWorld(t, func(o *thread.Options) { o.Auth = revocable{o.Auth, &uses} })
	id := w.open("a")
	go func() {
		for w.get("list_files?session_id=" + id).body["total_files"] != 1.0 && t.Context().Err() == nil {
			time.Sleep(pause)
		}
		uses.End("alice")
	}()
	w.run(id, "touch begun; sleep 300").want(t, 401, map[string]any{"code": "unauthorized", "error": "credentials are no longer valid"})
}

// TestBodiesShareMemory refuses a body if the user's other bodies take up the share.
func TestBodiesShareMemory(t *testing.T) {
	bodies := api.NewShares(100, 0)
	w := newWorld(t, func(o *thread.Options) { o.Bodies = bodies })
	id := w.open("a")
	give, err := bodies.Take(t.Context(), "alice", 100)
	if err != nil {
		t.Fatal(err)
	}
	w.run(id, "ls").want(t, 429, map[string]any{"code": "rate_limited"})
	w.send("bob", "POST", "/thread/cleanup", "application/json", strings.NewReader(`{"session_id":"x"}`)).want(t, 404, nil)
	give()
	w.run(id, "ls").want(t, 200, nil)
}

// list_files has the newest first within a second, and the letters of ls for special bits.
func TestPlainListOrderAndModes(t *testing.T) {
	w := newWorld(t, nil)
	id := w.open("a")
	w.run(id, `python3 -c '
import os
for name, ns, mode in ("b", 3, 0o1777), ("c", 5, 0o4755), ("a", 4, 0o2755), ("d", 2, 0o7000), ("e", 1, 0o644):
    open(name, "w").close()
    os.chmod(name, mode)
    os.utime(name, ns=(10**18 + ns, 10**18 + ns))
'`).want(t, 200, map[string]any{"exit_code": 0})
	var got []string
	for _, f := range w.get("list_files?session_id=" + id).body["files"].([]any) {
		entry := f.(map[string]any)
		got = append(got, fmt.Sprint(entry["name"], " ", entry["permissions"]))
	}
	if want := []string{"c -rwsr-xr-x", "a -rwxr-sr-x", "b -rwxrwxrwt", "d ---S--S--T", "e -rw-r--r--"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
