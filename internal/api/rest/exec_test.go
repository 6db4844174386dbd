//go:build linux

package rest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/apitest"
	"github.com/belljar/belljar/test/need"
)

// execAnswer is the response of the exec routes.
type execAnswer struct {
	ExecID     string `json:"exec_id"`
	SandboxID  string `json:"sandbox_id"`
	Status     string `json:"status"`
	ExitCode   *int   `json:"exit_code"`
	Signal     string `json:"signal"`
	TimedOut   bool   `json:"timed_out"`
	ReasonCode string `json:"reason_code"`
	Message    string `json:"message"`
	Hint       string `json:"hint"`
	DurationMS *int64 `json:"duration_ms"`
	belljar.Output

	Done      bool
	NextSeq   uint64 `json:"next_seq"`
	Truncated bool
	Chunks    []struct {
		Seq                    uint64
		Stream, Text, Encoding string
	}
}

// coding is a session for execs.
type coding struct {
	*bench
	id string
}

func newCoding(t *testing.T) *coding {
	b := newEngine(t)
	var session belljar.Session
	b.ask(200, "POST", "/sessions", "alice", `{"spec_version": "1.0", "base_image": "host", "workspace_exec": true}`, &session)
	return &coding{b, session.ID}
}

// exec sends a request, which must succeed.
func (c *coding) exec(request map[string]any) execAnswer {
	c.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		c.t.Fatal(err)
	}
	var a execAnswer
	c.ask(200, "POST", c.path(""), "alice", string(body), &a)
	return a
}

func (c *coding) sh(script string) execAnswer {
	c.t.Helper()
	return c.exec(map[string]any{"cmd": []string{"/bin/sh", "-c", script}})
}

func (c *coding) begin(script string) execAnswer {
	c.t.Helper()
	a := c.exec(map[string]any{"cmd": []string{"/bin/sh", "-c", script}, "stream": true})
	if a.Status != "running" || a.ExitCode != nil || a.ExecID == "" {
		c.t.Fatalf("%+v", a)
	}
	return a
}

func (c *coding) path(rest string) string { return "/sessions/" + c.id + "/exec" + rest }

func (c *coding) read(id string, query string) (a execAnswer) {
	c.t.Helper()
	c.ask(200, "GET", c.path("/"+id+"?"+query), "alice", "", &a)
	return a
}

func (c *coding) wait(id string) (a execAnswer) {
	c.t.Helper()
	c.ask(200, "POST", c.path("/"+id+"/wait"), "alice", ``, &a) // the body is optional
	return a
}

// text reads an exec's output to its end in small parts; seqs must rise.
func (c *coding) text(id string) (stdout, stderr string, last execAnswer) {
	c.t.Helper()
	var out, failures strings.Builder
	since := uint64(0)
	for {
		a := c.read(id, fmt.Sprintf("since_seq=%d&max_chunks=3&wait_seconds=200", since))
		for _, k := range a.Chunks {
			if k.Seq <= since {
				c.t.Fatalf("chunk %d behind %d", k.Seq, since)
			}
			since = k.Seq
			text := k.Text
			if k.Encoding == "base64" {
				raw, err := base64.StdEncoding.DecodeString(text)
				if err != nil {
					c.t.Fatal(err)
				}
				text = string(raw)
			}
			if k.Stream == "stdout" {
				out.WriteString(text)
			} else {
				failures.WriteString(text)
			}
		}
		if a.NextSeq < since {
			c.t.Fatalf("next_seq %d behind %d", a.NextSeq, since)
		}
		since = a.NextSeq
		if a.Done {
			return out.String(), failures.String(), a
		}
	}
}

// TestCodeMode is an agent's cycle: write, run, read the traceback, fix, rerun.
func TestCodeMode(t *testing.T) {
	need.Program(t, "python3")
	c := newCoding(t)
	write := func(text string) {
		t.Helper()
		contentType, body := form(t, [3]string{"files", "analyze.py", text})
		c.ask(200, "POST", "/sessions/"+c.id+"/files", "alice", body, nil, "Content-Type", contentType)
	}
	run := map[string]any{"cmd": []string{"python3", "analyze.py"}, "env": map[string]string{"ROWS": "3"}, "timeout_seconds": 300}
	write("import os\nrows = int(os.environ['ROWZ'])\nprint(rows * 14)\n")
	a := c.exec(run)
	if a.Status != "completed" || a.ExitCode == nil || *a.ExitCode != 1 || a.ReasonCode != "nonzero_exit" || a.SandboxID != c.id {
		t.Fatalf("%+v", a)
	}
	if !strings.Contains(a.Stderr, "Traceback (most recent call last)") || !strings.Contains(a.Stderr, "KeyError: 'ROWZ'") || a.Stdout != "" {
		t.Errorf("stdout %q, stderr %q", a.Stdout, a.Stderr)
	}
	write("import os\nrows = int(os.environ['ROWS'])\nprint(rows * 14)\n")
	a = c.exec(run)
	if a.ExitCode == nil || *a.ExitCode != 0 || a.Stdout != "42\n" || a.Stderr != "" || a.DurationMS == nil || a.StdoutEncoding != "utf8" {
		t.Errorf("%+v", a)
	}
	// An exec is a run for all routes of runs.
	var shown belljar.Run
	c.ask(200, "GET", "/runs/"+a.ExecID, "alice", "", &shown)
	if shown.SessionID != c.id || shown.Phase != belljar.PhaseCompleted {
		t.Errorf("%+v", shown)
	}
}

func TestExecOutcomes(t *testing.T) {
	c := newCoding(t)
	for _, test := range []struct {
		name    string
		request map[string]any
		code    int
		reason  string
		stdout  string
		message string // part of it
	}{
		{"nothing to say", map[string]any{"cmd": []string{"true"}}, 0, "", "", ""},
		{"input", map[string]any{"cmd": []string{"cat"}, "stdin": "in\x00put"}, 0, "", "in\x00put", ""},
		{"no input", map[string]any{"cmd": []string{"cat"}}, 0, "", "", ""},
		{"signal", map[string]any{"cmd": []string{"sh", "-c", "kill -SEGV $$"}}, 139, "signaled", "", "SIGSEGV"},
		{"timeout", map[string]any{"cmd": []string{"sleep", "60"}, "timeout_seconds": 1}, 143, "execution_timeout", "", "longer than"},
		{"no such program", map[string]any{"cmd": []string{"nonesuch"}}, 127, "exec_failed", "", "not found"},
		{"no such directory", map[string]any{"cmd": []string{"true"}, "cwd": "not/there"}, 126, "exec_failed", "", "not/there: the working directory does not exist"},
		{"closed descriptors", map[string]any{"cmd": []string{"sh", "-c", "exec 0<&- 1>&- 2>&-; exit 4"}}, 4, "nonzero_exit", "", ""},
		{"control sequences and end marks", map[string]any{"cmd": []string{"printf", `\033[2J__END__ 0\n`}}, 0, "", "\033[2J__END__ 0\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := c.exec(test.request)
			if a.Status != "completed" || a.ExitCode == nil || *a.ExitCode != test.code || a.ReasonCode != test.reason || a.Stdout != test.stdout || !strings.Contains(a.Message, test.message) {
				t.Errorf("%+v", a)
			}
			if a.TimedOut != (test.name == "timeout") {
				t.Errorf("timed_out %v", a.TimedOut)
			}
			if want := "allow more with timeout_seconds (--timeout)"; a.TimedOut && a.Hint != want {
				t.Errorf("hint %q, want %q", a.Hint, want)
			}
		})
	}
	if a := c.sh("true"); *a.ExitCode != 0 {
		t.Errorf("the session does not go on: %+v", a)
	}
}

func TestExecWorkingDirectory(t *testing.T) {
	c := newCoding(t)
	c.sh("mkdir -p a/b; touch a/file; ln -s / out")
	root := strings.TrimSuffix(c.sh("pwd -P").Stdout, "\n")
	for cwd, want := range map[string]string{
		"": root, ".": root, "a": root + "/a", "a/b/": root + "/a/b", "./a//b": root + "/a/b",
		"/workspace": root, "/workspace/a": root + "/a", "out": "/", // a link leads only to the sandbox's own files
	} {
		a := c.exec(map[string]any{"cmd": []string{"sh", "-c", "pwd -P"}, "cwd": cwd})
		if a.Stdout != want+"\n" || *a.ExitCode != 0 {
			t.Errorf("cwd %q: %q, %s", cwd, a.Stdout, a.Message)
		}
	}
	if a := c.exec(map[string]any{"cmd": []string{"true"}, "cwd": "a/file"}); *a.ExitCode != 126 || !strings.Contains(a.Message, "is a file") {
		t.Errorf("%+v", a)
	}
	for _, cwd := range []string{"..", "a/../b", "/", "/etc", "/workspacefoo", "a\x00b", "/workspace/..", strings.Repeat("a/", 600), strings.Repeat("x", 300)} {
		body, _ := json.Marshal(map[string]any{"cmd": []string{"true"}, "cwd": cwd})
		var got refusal
		c.ask(400, "POST", c.path(""), "alice", string(body), &got)
		if got.Error.Code != belljar.CodeInvalidRequest || got.Error.Details["field"] != "cwd" {
			t.Errorf("cwd %.30q: %+v", cwd, got.Error)
		}
	}
}

// An exec starts in the workspace, even if the image names another folder.
func TestExecInImageWithFolder(t *testing.T) {
	ref, image := apitest.WithImage(t, map[string]any{"WorkingDir": "/usr"})
	c := &coding{bench: newEngine(t, image)}
	var session belljar.Session
	c.ask(200, "POST", "/sessions", "alice", `{"spec_version": "1.0", "base_image": "`+ref+`"}`, &session)
	c.id = session.ID
	c.ask(200, "POST", "/sessions/"+c.id+"/fs/write", "alice", `{"path": "note", "contents": "here"}`, nil)
	if a := c.sh("cat note"); a.Stdout != "here" {
		t.Errorf("%+v", a)
	}
}

func TestPlainExecRefuses(t *testing.T) {
	c := newCoding(t)
	long := strings.Repeat("x", 1<<20)
	for body, field := range map[string]string{
		`{"cmd": []}`:                            "cmd",
		`{"cmd": [""]}`:                          "cmd",
		`{"cmd": "ls"}`:                          "cmd",
		`{}`:                                     "cmd",
		`{"cmd": ["a\u0000b"]}`:                  "cmd[0]",
		`{"cmd": ["echo", "` + long + `"]}`:      "cmd",
		`{"cmd": ["true"], "env": {"A=B": "x"}}`: "env",
		`{"cmd": ["true"], "env": {"A": "` + long + `"}}`: "env",
		`{"cmd": ["true"], "timeout_seconds": -1}`:        "timeout_seconds",
		`{"cmd": ["true"], "wait_seconds": -1}`:           "wait_seconds",
		`{"cmd": ["true"], "wait_seconds": 601}`:          "wait_seconds",
		`{"cmd": ["true"], "command": ["true"]}`:          "command",
		`{"cmd": ["true"], "stdin": "` + long + `x"}`:     "stdin",
	} {
		var got refusal
		c.ask(400, "POST", c.path(""), "alice", body, &got)
		if got.Error.Code != belljar.CodeInvalidRequest || got.Error.Details["field"] != field || !strings.Contains(got.Error.Message, field) {
			t.Errorf("%.60s: %+v", body, got.Error)
		}
	}
	almost := c.exec(map[string]any{"cmd": []string{"sh", "-c", "echo ${#1}", "sh", long[:1<<20/2]}})
	if almost.ExitCode == nil { // the kernel limits an argument to 128 KiB
		t.Errorf("%+v", almost)
	}
}

func TestExecReading(t *testing.T) {
	c := newCoding(t)
	x := c.begin("mkfifo go; echo one; echo two >&2; read x < go; echo three; printf 'bin\\377'; exit 7")
	first := c.read(x.ExecID, "wait_seconds=200")
	for len(first.Chunks) < 2 {
		more := c.read(x.ExecID, fmt.Sprintf("wait_seconds=200&since_seq=%d", first.NextSeq))
		first.Chunks, first.NextSeq = append(first.Chunks, more.Chunks...), more.NextSeq
	}
	if first.Done || first.ExitCode != nil || first.Chunks[0].Text+first.Chunks[1].Text != "one\ntwo\n" && first.Chunks[0].Text+first.Chunks[1].Text != "two\none\n" {
		t.Fatalf("%+v", first)
	}
	// A read without a wait returns immediately, here without output.
	if idle := c.read(x.ExecID, fmt.Sprintf("since_seq=%d", first.NextSeq)); len(idle.Chunks) != 0 || idle.Done || idle.Chunks == nil {
		t.Fatalf("%+v", idle)
	}
	var waited execAnswer
	c.ask(200, "POST", c.path("/"+x.ExecID+"/wait"), "alice", `{"timeout_seconds": 0.05}`, &waited)
	if waited.Done || waited.ExitCode != nil {
		t.Errorf("%+v", waited)
	}
	polled := make(chan execAnswer, 1)
	go func() { polled <- c.read(x.ExecID, fmt.Sprintf("since_seq=%d&wait_seconds=30", first.NextSeq)) }()
	if a := c.sh("echo > go"); *a.ExitCode != 0 {
		t.Fatalf("%+v", a)
	}
	if a := <-polled; len(a.Chunks) == 0 || a.Chunks[0].Stream != "stdout" {
		t.Errorf("%+v", a)
	}
	if a := c.wait(x.ExecID); !a.Done || a.ExitCode == nil || *a.ExitCode != 7 || a.ReasonCode != "nonzero_exit" {
		t.Errorf("%+v", a)
	}
	stdout, stderr, last := c.text(x.ExecID)
	if stdout != "one\nthree\nbin\xff" || stderr != "two\n" || last.ExitCode == nil || *last.ExitCode != 7 || last.Truncated {
		t.Errorf("stdout %q, stderr %q, %+v", stdout, stderr, last)
	}
	if a := c.read(x.ExecID, fmt.Sprintf("since_seq=%d", last.NextSeq+100)); !a.Done || len(a.Chunks) != 0 || *a.ExitCode != 7 {
		t.Errorf("%+v", a)
	}
	for _, query := range []string{"max_chunks=0", "max_chunks=1001", "since_seq=-1", "since_seq=x", "wait_seconds=-1", "nonesuch=1"} {
		c.ask(400, "GET", c.path("/"+x.ExecID+"?"+query), "alice", "", nil)
	}
}

// TestPlainExecFlood: excessive output is truncated in the log and in the response, and marked; reads are bounded.
func TestPlainExecFlood(t *testing.T) {
	c := newCoding(t)
	a := c.sh("head -c 3000000 /dev/zero | tr '\\0' x; echo end")
	if len(a.Stdout) != 1<<20 || !a.StdoutTruncated || a.StdoutOmittedBytes != 3000004-1<<20 || !strings.HasSuffix(a.Stdout, "end\n") {
		t.Errorf("%d bytes, %v, %d omitted", len(a.Stdout), a.StdoutTruncated, a.StdoutOmittedBytes)
	}
	part := c.read(a.ExecID, "max_chunks=1000")
	n := 0
	for _, k := range part.Chunks {
		n += len(k.Text)
	}
	if part.Done || n < 1<<20 || n > 1<<20+belljar.MaxFrameBytes {
		t.Errorf("one answer has %d bytes, done %v", n, part.Done)
	}
	if stdout, _, last := c.text(a.ExecID); len(stdout) != 3000004 || last.Truncated {
		t.Errorf("%d bytes, %v", len(stdout), last.Truncated)
	}
	var small belljar.Session
	c.ask(200, "POST", "/sessions", "alice", `{"spec_version": "1.0", "base_image": "host", "resources": {"log_bytes": 2097152}}`, &small)
	c.id = small.ID
	a = c.sh("head -c 3000000 /dev/urandom")
	if !a.StdoutTruncated || a.StdoutEncoding != "base64" {
		t.Errorf("%v, %s", a.StdoutTruncated, a.StdoutEncoding)
	}
	if _, _, last := c.text(a.ExecID); !last.Truncated {
		t.Error("no warning says that the log was cut")
	}
}

func TestExecCancel(t *testing.T) {
	c := newCoding(t)
	x := c.begin("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
	if a := c.read(x.ExecID, "wait_seconds=200"); len(a.Chunks) == 0 {
		t.Fatalf("%+v", a)
	}
	var canceled execAnswer
	c.ask(200, "POST", c.path("/"+x.ExecID+"/cancel"), "alice", "", &canceled)
	if canceled.Status != "canceling" || canceled.ExecID != x.ExecID {
		t.Errorf("%+v", canceled)
	}
	if a := c.wait(x.ExecID); !a.Done || a.ExitCode == nil || *a.ExitCode != 0 || a.ReasonCode != "canceled_by_user" {
		t.Errorf("%+v", a)
	}
	c.ask(200, "POST", c.path("/"+x.ExecID+"/cancel"), "alice", "", &canceled)
	if canceled.Status != "finished" || canceled.ReasonCode != "canceled_by_user" {
		t.Errorf("%+v", canceled)
	}
	x = c.sh("kill -KILL $$")
	c.ask(200, "POST", c.path("/"+x.ExecID+"/cancel"), "alice", "", &canceled)
	if canceled.Status != "finished" || canceled.Signal != "SIGKILL" || *canceled.ExitCode != 137 {
		t.Errorf("%+v", canceled)
	}
}

// TestExecBelongs: an exec belongs to its session and to the session's owner.
func TestExecBelongs(t *testing.T) {
	c := newCoding(t)
	x := c.sh("echo mine")
	var other belljar.Session
	c.ask(200, "POST", "/sessions", "alice", `{"spec_version": "1.0", "base_image": "host"}`, &other)
	var alone belljar.Run
	c.ask(200, "POST", "/runs?wait=200", "alice", `{"spec_version": "1.0", "base_image": "host", "command": ["true"]}`, &alone)
	unknown := belljar.NewID()
	for _, at := range []struct{ as, session, exec string }{
		{"alice", other.ID, x.ExecID}, {"bob", c.id, x.ExecID}, {"alice", c.id, unknown}, {"alice", unknown, x.ExecID},
		{"alice", c.id, alone.ID}, {"alice", c.id, "x"},
	} {
		path := "/sessions/" + at.session + "/exec/" + at.exec
		for _, try := range []struct{ method, path, body string }{{"GET", path, ""}, {"POST", path + "/wait", `{}`}, {"POST", path + "/cancel", ""}} {
			var got refusal
			c.ask(404, try.method, try.path, at.as, try.body, &got)
			if got.Error.Code != belljar.CodeNotFound {
				t.Errorf("%v %+v", at, got.Error)
			}
		}
	}
	c.ask(404, "POST", "/sessions/"+unknown+"/exec", "alice", `{"cmd": ["true"]}`, nil)
	c.ask(404, "POST", c.path(""), "bob", `{"cmd": ["true"]}`, nil)
	c.ask(401, "POST", c.path(""), "", `{"cmd": ["true"]}`, nil)
	c.ask(204, "DELETE", "/sessions/"+c.id, "alice", "", nil)
	var got refusal
	c.ask(409, "POST", c.path(""), "alice", `{"cmd": ["true"]}`, &got)
	if got.Error.Details["state"] != "closed" {
		t.Errorf("%+v", got.Error)
	}
	if stdout, _, last := c.text(x.ExecID); stdout != "mine\n" || *last.ExitCode != 0 { // the output is kept
		t.Errorf("%q %+v", stdout, last)
	}
}

// TestExecsAtOnce: execs of one session run concurrently, with separate output.
func TestExecsAtOnce(t *testing.T) {
	c := newCoding(t)
	const n = 8
	c.sh("mkdir up")
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { // each waits for all the others
			a := c.sh(fmt.Sprintf("touch up/%d; until [ $(ls up | wc -l) = %d ]; do sleep 0.02; done; echo %d; echo e%d >&2", i, n, i, i))
			if a.Stdout != fmt.Sprintf("%d\n", i) || a.Stderr != fmt.Sprintf("e%d\n", i) {
				t.Errorf("%+v", a)
			}
		})
	}
	all.Wait()
}

// TestExecOutlivesItsClient: an exec continues after its client disconnects.
func TestExecOutlivesItsClient(t *testing.T) {
	c := newCoding(t)
	c.sh("mkfifo began go")
	ctx, leave := context.WithCancel(c.context())
	body := `{"cmd": ["sh", "-c", "echo > began; read x < go; echo still here"], "env": {}}`
	req, err := http.NewRequestWithContext(ctx, "POST", c.url+prefix+c.path(""), bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", "alice")
	gone := make(chan error, 1)
	go func() {
		resp, err := c.http.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		gone <- err
	}()
	c.sh("read x < began")
	leave()
	if err := <-gone; err == nil {
		t.Fatal("the answer came before the end")
	}
	var list belljar.RunPage
	for wait := c.context(); len(list.Items) == 0; { // the command may start before the service is notified
		if wait.Err() != nil {
			t.Fatal("the exec does not run")
		}
		c.ask(200, "GET", "/runs?session_id="+c.id+"&phase=running", "alice", "", &list)
	}
	if len(list.Items) != 1 {
		t.Fatalf("%+v", list)
	}
	c.sh("echo > go")
	if a := c.wait(list.Items[0].ID); !a.Done || *a.ExitCode != 0 {
		t.Errorf("%+v", a)
	}
	if stdout, _, _ := c.text(list.Items[0].ID); stdout != "still here\n" {
		t.Errorf("%q", stdout)
	}
}

// TestExecShortWait: if the wait ends first, the response has the exec's current state.
func TestExecShortWait(t *testing.T) {
	c := newCoding(t)
	begun := time.Now()
	a := c.exec(map[string]any{"cmd": []string{"sh", "-c", "echo; exec sleep 300"}, "timeout_seconds": 600, "wait_seconds": 0.05})
	if a.Status != "running" || a.ExitCode != nil || time.Since(begun) > time.Minute {
		t.Errorf("%+v", a)
	}
	c.read(a.ExecID, "since_seq=0&wait_seconds=200") // it is running: an earlier signal would find no program
	c.ask(200, "POST", c.path("/"+a.ExecID+"/cancel"), "alice", "", nil)
	if a := c.wait(a.ExecID); !a.Done || *a.ExitCode != 143 || a.Signal != "SIGTERM" {
		t.Errorf("%+v", a)
	}
}

// TestExecOnce: a request that is repeated with its key starts one exec.
func TestExecOnce(t *testing.T) {
	c := newCoding(t)
	const body = `{"cmd": ["sh", "-c", "echo x >> count; wc -l < count"]}`
	var first, again execAnswer
	c.ask(200, "POST", c.path(""), "alice", body, &first, "Idempotency-Key", "k")
	c.ask(200, "POST", c.path(""), "alice", body, &again, "Idempotency-Key", "k")
	if first.ExecID != again.ExecID || strings.TrimSpace(first.Stdout) != "1" || again.Stdout != first.Stdout {
		t.Errorf("%+v\n%+v", first, again)
	}
}
