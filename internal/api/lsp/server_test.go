//go:build linux

package lsp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/lsp"
)

const failing = "import os\n\ndef load(n):\n    return \"😀\", 1 / n  # é\n\nif __name__ == \"__main__\":\n    print(\"hello\")\n    load(0)\n"

// One scenario from the lens to the artifacts, in one folder with one session.
func TestScenario(t *testing.T) {
	s := service(t)
	dir := makeFolder(t, map[string]string{"main.py": failing, "lib/x.txt": "data"})
	e := start(t, with(s))
	got := e.initialize([]string{dir}, nil)
	uri := "file://" + dir + "/main.py"
	e.open(uri, "python", failing)

	lenses := e.call("textDocument/codeLens", map[string]any{"textDocument": map[string]any{"uri": uri}})
	if want := `[{"range":{"start":{"line":5,"character":0},"end":{"line":5,"character":25}},"command":{"title":"▶ Run in Sandbox","tooltip":"Send the folder to its sandbox and run this there","command":"tldw.sandbox.run","arguments":[{"uri":"` + uri + `"}]}}]`; string(lenses.Result) != want {
		t.Errorf("lenses are\n%s\nwant\n%s", lenses.Result, want)
	}
	if commands := got["capabilities"].(map[string]any)["executeCommandProvider"].(map[string]any)["commands"].([]any); len(commands) != 7 {
		t.Errorf("commands are %v", commands)
	}

	// A click answers immediately; notifications bring the rest.
	answer := e.command("tldw.sandbox.run", map[string]any{"uri": uri}).object(t)
	id := answer["run_id"].(string)
	if answer["log_stream_url"] != "ws://belljar.test/api/v1/sandbox/runs/"+id+"/stream" || answer["web_url"] != "http://belljar.test/webui/sandbox/runs/"+id || answer["session_id"] == nil {
		t.Errorf("%v", answer)
	}
	found := e.diagnostics(uri)
	if len(found) != 1 {
		t.Fatalf("diagnostics are %v", found)
	}
	d := found[0]
	// Python's columns count the bytes of é and the emoji, the editor's count UTF-16 units.
	if where(d) != "3:17-3:22" || d["message"] != "ZeroDivisionError: division by zero (exit status 1)" || d["source"] != "belljar" || d["code"] != "ZeroDivisionError" {
		t.Errorf("the diagnostic is %s %v", where(d), d)
	}
	if r, ok := d["relatedInformation"].([]any); !ok || len(r) != 1 || where(r[0].(map[string]any)["location"].(map[string]any))[:2] != "7:" {
		t.Errorf("related is %v", d["relatedInformation"])
	}
	end := e.wait(func(m message) bool { return m.Method == "belljar/run" && m.object(t)["phase"] == "failed" }).object(t)
	if end["exit_code"] != 1.0 || end["run_id"] != id || end["folder"] != "file://"+dir {
		t.Errorf("%v", end)
	}
	e.wait(func(m message) bool { return m.Method == "workspace/codeLens/refresh" })
	if again := e.call("textDocument/codeLens", map[string]any{"textDocument": map[string]any{"uri": uri}}); !strings.Contains(string(again.Result), "✗ exit 1 · Run again") {
		t.Errorf("%s", again.Result)
	}
	if out := e.printed(id, "stdout"); out != "hello\n" {
		t.Errorf("stdout is %q", out)
	}
	if !strings.Contains(e.printed(id, "stderr"), "ZeroDivisionError") {
		t.Error("stderr was not forwarded")
	}
	with := []any{d} // those of another server have data of their own
	for _, data := range []any{[]string{"x"}, "x", map[string]any{"run_id": 5}} {
		with = append(with, map[string]any{"source": "jdt", "range": d["range"], "message": "m", "code": 7, "data": data})
	}
	actions := e.call("textDocument/codeAction", map[string]any{"textDocument": map[string]any{"uri": uri}, "range": d["range"], "context": map[string]any{"diagnostics": with}})
	for _, title := range []string{"Re-run in Sandbox", "View full logs in Web UI", "Reveal in artifacts", id} {
		if !strings.Contains(string(actions.Result), title) {
			t.Errorf("actions have no %s: %s", title, actions.Result)
		}
	}

	other := e.call("textDocument/codeAction", map[string]any{"textDocument": map[string]any{"uri": uri}, "range": d["range"], "context": map[string]any{"diagnostics": found, "only": []string{"refactor"}}})
	if string(other.Result) != "[]" {
		t.Errorf("%s", other.Result)
	}

	// New lines above move the diagnostic, and an edit of its line clears it.
	e.change(uri, 2, []int{0, 0, 0, 0}, "# more\n")
	if moved := e.diagnostics(uri); len(moved) != 1 || where(moved[0])[:2] != "4:" {
		t.Errorf("%v", moved)
	}
	e.change(uri, 3, []int{8, 4, 8, 11}, "open('out.txt', 'w').write(open('lib/x.txt').read())")
	e.change(uri, 4, []int{4, 4, 4, 4}, "n = 1; ")
	if cleared := e.diagnostics(uri); len(cleared) != 0 {
		t.Errorf("%v", cleared)
	}
	// The unsaved text replaces the file.
	fixed := e.run(map[string]any{"uri": uri, "capture_patterns": []string{"out.txt"}})
	if fixed["exit_code"] != 0.0 || fixed["phase"] != "completed" || fixed["session_id"] != answer["session_id"] {
		t.Errorf("%v\n%s", fixed, e.printed(fixed["run_id"], "stderr"))
	}
	left := e.command("tldw.sandbox.openArtifacts", map[string]any{}).object(t)
	items := left["items"].([]any)
	if len(items) != 1 || items[0].(map[string]any)["path"] != "out.txt" || items[0].(map[string]any)["size"] != 4.0 || left["run_id"] != fixed["run_id"] {
		t.Errorf("%v", left)
	}
	to := filepath.Join(t.TempDir(), "fetched")
	e.command("belljar.sandbox.fetchArtifact", map[string]any{"path": "out.txt", "to": "file://" + to}).object(t)
	if text, err := os.ReadFile(to); err != nil || string(text) != "data" {
		t.Errorf("%q %v", text, err)
	}

	// A rerun has the arguments of the last run, and sends changed and deleted files.
	if err := errors.Join(os.Remove(filepath.Join(dir, "lib/x.txt")), os.WriteFile(filepath.Join(dir, "new.py"), []byte("x"), 0o644)); err != nil {
		t.Fatal(err)
	}
	again := e.run(map[string]any{"rerun": true})
	if again["exit_code"] != 1.0 || !strings.Contains(e.printed(again["run_id"], "stderr"), "No such file or directory: 'lib/x.txt'") {
		t.Errorf("%v\n%s", again, e.printed(again["run_id"], "stderr"))
	}
	listed := e.run(map[string]any{"command": []string{"ls"}})
	if out := e.printed(listed["run_id"], "stdout"); !strings.Contains(out, "new.py") {
		t.Errorf("%s", out)
	}

	// The session is gone: the next run gets another one with all files, without a message.
	if err := s.Sessions().Delete(context.Background(), answer["session_id"].(string)); err != nil {
		t.Fatal(err)
	}
	renewed := e.run(map[string]any{"command": []string{"cat", "new.py"}})
	if renewed["exit_code"] != 0.0 || renewed["session_id"] == answer["session_id"] {
		t.Errorf("%v", renewed)
	}
	e.call("shutdown", nil)
	e.notify("exit", nil)
	if err := <-e.done; err != nil {
		t.Error(err)
	}
	e.done <- nil
}

func TestCommandsOfTheClient(t *testing.T) {
	e := start(t, with(nil))
	got := e.initialize(nil, map[string]any{"clientCommands": true, "codeLens": false})
	c := got["capabilities"].(map[string]any)
	if commands := c["executeCommandProvider"].(map[string]any)["commands"].([]any); len(commands) != 0 {
		t.Errorf("%v", commands)
	}
	if c["positionEncoding"] != "utf-16" {
		t.Errorf("%v", c)
	}
}

// Neovim writes an empty table as an empty list.
func TestEmptyTables(t *testing.T) {
	for _, options := range []any{[]any{}, nil, map[string]any{}} {
		e := start(t, with(nil))
		if m := e.call("initialize", map[string]any{"initializationOptions": options, "capabilities": map[string]any{}}); m.Error != nil {
			t.Errorf("initialize with %v: %+v", options, m.Error)
		}
		e.refused("tldw.sandbox.openArtifacts", options, -32004, "nothing was run")
		e.refused("tldw.sandbox.openArtifacts", []any{1}, -32602, "")
		e.call("shutdown", nil)
		e.notify("exit", nil)
	}
	e := start(t, with(nil))
	if m := e.call("initialize", map[string]any{"initializationOptions": []any{1}, "capabilities": map[string]any{}}); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("%+v", m.Error)
	}
}

func TestBadInput(t *testing.T) {
	opened := 0
	o := with(service(t))
	open := o.Open
	o.Open = func(ctx context.Context) (belljar.Service, func() error, error) {
		opened++
		if opened == 1 {
			return nil, nil, &belljar.Error{Code: belljar.CodeUnauthorized, Message: "no"}
		}
		return open(ctx)
	}
	dir, other := makeFolder(t, map[string]string{"a.py": "print(1)\n", "x.bin": "\x00"}), makeFolder(t, map[string]string{"b.py": "print(2)\n", "c.txt": ""})
	e := start(t, o)
	if m := e.call("textDocument/codeLens", map[string]any{}); m.Error == nil || m.Error.Code != -32002 {
		t.Errorf("%+v", m.Error)
	}
	e.notify("textDocument/didOpen", map[string]any{}) // invalid: it is dropped
	e.initialize([]string{dir, other}, nil)
	if m := e.call("initialize", map[string]any{}); m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("%+v", m.Error)
	}
	if m := e.call("textDocument/hover", map[string]any{}); m.Error == nil || m.Error.Code != -32601 {
		t.Errorf("%+v", m.Error)
	}
	e.notify("$/unknown", map[string]any{})
	for _, token := range []any{[]any{}, map[string]any{}, 1, nil} {
		e.notify("window/workDoneProgress/cancel", map[string]any{"token": token}) // unknown token
	}
	e.raw("{not json")
	if m := e.wait(func(m message) bool { return m.Error != nil }); m.Error.Code != -32700 {
		t.Errorf("%+v", m.Error)
	}
	const run = "tldw.sandbox.run"
	e.refused(run, map[string]any{"folder": "file://" + dir, "comand": []string{"x"}}, -32602, `unknown field "comand"`)
	e.refused(run, map[string]any{"folder": "file://" + dir, "test": map[string]any{"nam": "x"}}, -32602, `unknown field "test.nam"`)
	e.refused("tldw.sandbox.configure", map[string]any{"server": "http://evil"}, -32602, `unknown field "server"`)
	e.refused(run, map[string]any{"command": []string{"true"}}, -32602, "folder is required: 2 folders")
	e.refused(run, map[string]any{"command": []string{"true"}, "folder": "file:///elsewhere"}, -32602, "is not open")
	e.refused(run, map[string]any{"folder": "file://" + dir, "command": []string{"true"}, "files": []string{"../x"}}, -32602, "files[0]")
	e.refused(run, map[string]any{"folder": "file://" + dir, "command": []string{"true"}, "cwd": "/etc"}, -32602, "cwd")
	e.refused(run, map[string]any{"folder": "file://" + dir}, -32602, "nothing to run")
	e.refused(run, map[string]any{"uri": "file://" + other + "/c.txt"}, -32602, "no language is known")
	e.refused(run, map[string]any{"uri": "file://" + other + "/b.py", "folder": "file://" + dir}, -32602, "not in the folder")
	e.refused(run, map[string]any{"uri": "file://" + dir + "/a.py", "language": "python"}, -32602, "command is unset")
	e.refused(run, map[string]any{"uri": "file://" + makeFolder(t, map[string]string{"d.py": ""}) + "/d.py", "cwd": "x"}, -32602, "only the file itself")
	e.refused(run, map[string]any{"uri": "ftp://x/y"}, -32004, "neither open")
	e.refused(run, map[string]any{"folder": "file://" + dir, "command": []string{"true"}, "timeout_sec": -1}, -32602, "timeout_sec")
	e.refused(run, map[string]any{"rerun": true}, -32004, "nothing was run")
	e.refused("tldw.sandbox.openArtifacts", map[string]any{}, -32004, "nothing was run")
	e.refused("belljar.sandbox.fetchArtifact", map[string]any{"path": "x", "to": "/tmp/x"}, -32602, "not the URI of a file")
	e.refused("no.such.command", map[string]any{}, -32602, "is not known")
	if opened != 0 {
		t.Error("wrong requests have opened the service")
	}
	// Without credentials the error has a hint, and the next command tries again.
	m := e.command(run, map[string]any{"folder": "file://" + dir, "command": []string{"true"}})
	if m.Error == nil || m.Error.Code != -32803 || !strings.Contains(m.Error.Message, "credentials are missing") || m.Error.Data["action"] == nil {
		t.Errorf("%+v", m.Error)
	}
	e.refused(run, map[string]any{"folder": "file://" + dir, "command": []string{"true"}, "files": []string{"x.bin"}}, -32602, "it is binary")
	// Two folders have two sessions.
	one, two := e.run(map[string]any{"uri": "file://" + dir + "/a.py"}), e.run(map[string]any{"uri": "file://" + other + "/b.py"})
	if one["session_id"] == two["session_id"] || e.printed(one["run_id"], "stdout") != "1\n" || e.printed(two["run_id"], "stdout") != "2\n" {
		t.Errorf("%v %v", one, two)
	}
	// A text without a file, and a file outside of the folders, are one-shot runs.
	e.open("untitled:Untitled-1", "python", "import os\nprint([n for n in os.listdir() if n != '.tmp'])\nnope()\n")
	lone := e.run(map[string]any{"uri": "untitled:Untitled-1"})
	if out := e.printed(lone["run_id"], "stdout"); out != "['main.py']\n" || lone["session_id"] != nil {
		t.Errorf("%s %v", out, lone)
	}
	if d := e.diagnostics("untitled:Untitled-1"); len(d) != 1 || where(d[0])[:2] != "2:" {
		t.Errorf("%v", d)
	}
	outside := makeFolder(t, map[string]string{"o.py": "import os\nprint([n for n in os.listdir() if n != '.tmp'])\n", "secret": "s"})
	alone := e.run(map[string]any{"uri": "file://" + outside + "/o.py"})
	if out := e.printed(alone["run_id"], "stdout"); out != "['o.py']\n" {
		t.Errorf("%s", out)
	}
	e.refused(run, map[string]any{"uri": "file://" + outside + "/secret"}, -32602, "no language is known for secret")
	e.notify("workspace/didChangeWorkspaceFolders", map[string]any{"event": map[string]any{"removed": []any{map[string]any{"uri": "file://" + other}}, "added": []any{}}})
	if got := e.run(map[string]any{"command": []string{"cat", "a.py"}}); got["exit_code"] != 0.0 {
		t.Errorf("%v", got)
	}
	e.call("shutdown", nil)
	if m := e.call("textDocument/codeLens", map[string]any{}); m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("%+v", m.Error)
	}
}

// Invalid protocol ends the server with a reason, and so does an editor that ends without shutdown.
func TestEnds(t *testing.T) {
	for input, want := range map[string]string{
		"GET / HTTP/1.1\r\n\r\n":                   "a header line",
		"Content-Type: x\r\n\r\n{}":                "no Content-Length",
		"Content-Length: 99999999999\r\n\r\n":      "may have",
		"Content-Length: -1\r\n\r\n":               "Content-Length",
		"X: " + strings.Repeat("x", 9000) + "\r\n": "header is longer",
		"": "",
		"Content-Length: 33\r\n\r\n{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}": "shutdown",
	} {
		in, out := strings.NewReader(input), io.Discard
		err := lsp.Serve(t.Context(), lsp.Options{Config: t.TempDir()}, in, out)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.30q: %v, want %s", input, err, want)
		}
	}
}

// A client may send everything without waiting: messages that depend on another are handled after its response.
func TestWithoutWaiting(t *testing.T) {
	t.Parallel()
	var in, out strings.Builder
	for _, m := range []string{
		`{"jsonrpc":"2.0","id":{},"method":"initialize"}`, `{"jsonrpc":"2.0","id":true,"method":"shutdown"}`, `{"jsonrpc":"2.0","ID":9,"Method":"shutdown"}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}`, `{"jsonrpc":"2.0","method":"initialized","params":{}}`,
		`{"jsonrpc":"2.0","id":2,"method":"shutdown"}`, `{"jsonrpc":"2.0","id":null,"method":"shutdown"}`, `{"jsonrpc":"2.0","method":"exit"}`,
	} {
		fmt.Fprintf(&in, "Content-Length: %d\r\n\r\n%s", len(m), m)
	}
	if err := lsp.Serve(t.Context(), lsp.Options{}, strings.NewReader(in.String()), &out); err != nil {
		t.Error(err)
	}
	if text := out.String(); !strings.Contains(text, `"id":1,"result":{"capabilities"`) || !strings.Contains(text, `"id":2,"result":null`) {
		t.Errorf("answers: %s", text)
	}
}

// A repository's files select nothing, and settings that an editor reads from them are ignored.
func TestHostileRepository(t *testing.T) {
	secret := makeFolder(t, map[string]string{"key": "secret"})
	dir := makeFolder(t, map[string]string{
		"main.py": "import os\nprint(sorted(n for n in os.listdir() if n != '.tmp'), 'BAD' in os.environ)\n", ".vscode/settings.json": `{"tldw.sandbox.serverUrl": "http://evil", "tldw.sandbox.image": "evil"}`,
		"belljar.json": `{"command": ["evil"]}`, ".belljar/ide.json": `{"base_image": "evil", "env": {"BAD": "1"}}`, ".belljarignore": "!*\n!.git\n", ".git/hooks/x": "x",
	})
	if err := os.Symlink(secret, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(secret, "key"), filepath.Join(dir, "key.py")); err != nil {
		t.Fatal(err)
	}
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	e.notify("workspace/didChangeConfiguration", map[string]any{"settings": map[string]any{"tldw": map[string]any{"sandbox": map[string]any{"image": "evil", "serverUrl": "http://evil"}}}})
	e.refused("tldw.sandbox.run", map[string]any{}, -32602, "nothing to run")
	got := e.run(map[string]any{"uri": "file://" + dir + "/main.py"})
	if out := e.printed(got["run_id"], "stdout"); out != "['.belljar', '.belljarignore', '.vscode', 'belljar.json', 'main.py'] False\n" {
		t.Errorf("%s", out)
	}
	e.refused("tldw.sandbox.run", map[string]any{"uri": "file://" + dir + "/key.py"}, -32602, "leads out of the folder")
}

// lostService is a server that becomes unreachable while a run prints.
type lostService struct{ belljar.Service }

// Runs gives access to runs.
func (s lostService) Runs() belljar.Runs { return lostRuns{s.Service.Runs()} }

type lostRuns struct{ belljar.Runs }

// Frames ends with the first output.
func (r lostRuns) Frames(ctx context.Context, id string, from uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		for f, err := range r.Runs.Frames(ctx, id, from) {
			if !yield(f, err) {
				return
			}
			if f.Type == belljar.FrameStdout {
				yield(belljar.Frame{}, &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "http://belljar.test cannot be reached: connection refused"})
				return
			}
		}
	}
}

// If the server becomes unreachable, the error names it, no diagnostic is invented, and the next command tries again.
func TestServerGone(t *testing.T) {
	dir := makeFolder(t, map[string]string{"x.sh": "echo one; exit 1\n"})
	e := start(t, with(lostService{service(t)}))
	e.initialize([]string{dir}, nil)
	uri := "file://" + dir + "/x.sh"
	e.refused("tldw.sandbox.run", map[string]any{"uri": uri, "wait": true}, -32053, "cannot be reached")
	if shown := e.next("window/showMessage"); !strings.Contains(shown["message"].(string), "http://belljar.test cannot be reached") {
		t.Errorf("%v", shown)
	}
	e.refused("tldw.sandbox.run", map[string]any{"rerun": true, "wait": true}, -32053, "cannot be reached")
	for _, m := range e.queue {
		if m.Method == "textDocument/publishDiagnostics" {
			t.Errorf("%s", m.Params)
		}
	}
}

// awayService is a server that becomes unreachable when a run prints, and comes back at the test's signal.
type awayService struct {
	belljar.Service
	back chan struct{}
}

// Runs gives access to runs.
func (s awayService) Runs() belljar.Runs { return awayRuns{s.Service.Runs(), s.back} }

type awayRuns struct {
	belljar.Runs
	back chan struct{}
}

type sayKey struct{}

var errAway = &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "server belljar.test cannot be reached"}

// Frames blocks at the first output until the server is back.
func (r awayRuns) Frames(ctx context.Context, id string, from uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		for f, err := range r.Runs.Frames(ctx, id, from) {
			if !yield(f, err) {
				return
			}
			if f.Type == belljar.FrameStdout {
				say := ctx.Value(sayKey{}).(func(error))
				say(errAway)
				say(errAway)
				select {
				case <-r.back:
				case <-ctx.Done():
					yield(belljar.Frame{}, ctx.Err())
					return
				}
			}
		}
	}
}

// Cancel fails while the server is unreachable.
func (r awayRuns) Cancel(ctx context.Context, _ string) error {
	ctx.Value(sayKey{}).(func(error))(errAway)
	return errAway
}

// The editor is notified immediately when the server becomes unreachable during a run. The run continues when the server is back. A run that is
// cancelled in the meantime is no longer followed, and the next one starts.
func TestServerAway(t *testing.T) {
	s := awayService{service(t), make(chan struct{})}
	dir := makeFolder(t, map[string]string{"x.sh": "echo one; exit 1\n"})
	o := with(s)
	o.OnRetry = func(ctx context.Context, say func(error)) context.Context {
		return context.WithValue(ctx, sayKey{}, say)
	}
	e := start(t, o)
	e.initialize([]string{dir}, nil)
	uri := "file://" + dir + "/x.sh"
	away := func(m message) bool { return m.Method == "belljar/run" && m.object(t)["message"] != nil }
	for _, way := range []string{"back", "command", "progress"} {
		run := e.command("tldw.sandbox.run", map[string]any{"uri": uri}).object(t)["run_id"]
		if note := e.wait(away).object(t); note["run_id"] != run || note["lost"] != nil || note["phase"] != "running" || !strings.Contains(note["message"].(string), errAway.Message) {
			t.Errorf("%v", note)
		}
		if shown := e.next("window/showMessage"); shown["type"] != 2.0 || !strings.Contains(shown["message"].(string), errAway.Message) {
			t.Errorf("%v", shown)
		}
		switch way {
		case "back":
			s.back <- struct{}{}
			e.wait(func(m message) bool { return m.Method == "belljar/run" && m.object(t)["exit_code"] == 1.0 })
			continue
		case "command":
			e.refused("belljar.sandbox.cancel", map[string]any{}, -32053, errAway.Message)
		case "progress":
			e.notify("window/workDoneProgress/cancel", map[string]any{"token": "belljar-run-3"})
		}
		if note := e.wait(away).object(t); note["run_id"] != run || note["lost"] != true || note["phase"] != "running" {
			t.Errorf("%v", note)
		}
		if shown := e.next("window/showMessage"); shown["type"] != 1.0 || !strings.Contains(shown["message"].(string), errAway.Message) {
			t.Errorf("%v", shown)
		}
	}
}

func TestInput(t *testing.T) {
	dir := makeFolder(t, map[string]string{"x.sh": "read a; echo got $a; cat\n"})
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	id := e.ask("workspace/executeCommand", map[string]any{"command": "tldw.sandbox.run", "arguments": []any{map[string]any{"uri": "file://" + dir + "/x.sh", "interactive": true, "wait": true}}})
	run := e.next("belljar/run")["run_id"]
	e.command("belljar.sandbox.input", map[string]any{"run_id": run, "data": "one\n"}).object(t)
	e.wait(func(m message) bool { return m.Method == "belljar/log" && m.object(t)["data"] == "got one\n" })
	e.command("belljar.sandbox.input", map[string]any{"data": "two", "end": true}).object(t)
	if end := e.answer(id).object(t); end["exit_code"] != 0.0 || e.printed(run, "stdout") != "two" {
		t.Errorf("%v %q", end, e.printed(run, "stdout"))
	}
	e.refused("belljar.sandbox.input", map[string]any{"data": "x"}, -32009, "it has ended")
	again := e.command("tldw.sandbox.run", map[string]any{"rerun": true}).object(t)
	if again["interactive"] != true {
		t.Errorf("%v", again)
	}
	e.command("belljar.sandbox.cancel", map[string]any{"run_id": again["run_id"]}).object(t)
	e.run(map[string]any{"command": []string{"true"}})
	e.refused("belljar.sandbox.input", map[string]any{"data": "x"}, -32009, "reads no input")
}

func TestConfigure(t *testing.T) {
	dir := makeFolder(t, map[string]string{"x.txt": "", "b.bin": "1"})
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	const configure = "tldw.sandbox.configure"
	if got := string(e.command(configure, map[string]any{}).Result); got != "{}" {
		t.Errorf("%s", got)
	}
	e.refused(configure, map[string]any{"timeout_sec": -1.0}, -32602, "timeout_sec")
	e.refused(configure, map[string]any{"policy": map[string]any{"trust_level": "very"}}, -32602, "trust_level")
	e.command(configure, map[string]any{"command": []string{"sh", "-c", "ls; echo $A"}, "env": map[string]string{"A": "1"}, "sync": map[string]any{"allow": []string{"*.bin"}, "ignore": []string{"x.txt"}}}).object(t)
	got := e.command(configure, map[string]any{"capture_patterns": []string{"*.bin"}}).object(t)
	if got["command"] == nil || got["capture_patterns"] == nil {
		t.Errorf("%v", got)
	}
	r := e.run(map[string]any{})
	if out := e.printed(r["run_id"], "stdout"); out != "b.bin\n1\n" {
		t.Errorf("%q", out)
	}
	if left := e.command("tldw.sandbox.openArtifacts", nil).object(t); len(left["items"].([]any)) != 1 {
		t.Errorf("%v", left)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder has %v", entries)
	}
}
