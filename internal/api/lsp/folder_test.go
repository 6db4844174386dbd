//go:build linux

package lsp_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/apitest"
)

// A run uses the text that the editor opened, even if it is not saved. A file's bytes stay unchanged if the editor only shows them in another
// form.
func TestOpenedUnsaved(t *testing.T) {
	dir := makeFolder(t, map[string]string{"a.sh": "echo disk\n", "same": "1\r\n2", "mark": "\ufeff1\n", "latin": "\xe9\n"})
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	for name, text := range map[string]string{"a.sh": "echo unsaved; cat new same mark latin | od -An -tx1", "new": "n", "same": "1\n2\n", "mark": "1\n", "latin": "é\n"} {
		e.open("file://"+dir+"/"+name, "text", text)
	}
	run := e.run(map[string]any{"uri": "file://" + dir + "/a.sh"})
	if out := e.printed(run["run_id"], "stdout"); out != "unsaved\n 6e 31 0d 0a 32 ef bb bf 31 0a e9 0a\n" {
		t.Errorf("%q", out)
	}
}

// A run in a folder sends the unsaved texts of the folders within it, too.
func TestNestedFolders(t *testing.T) {
	dir := makeFolder(t, map[string]string{"in/a.sh": "echo disk\n"})
	e := start(t, with(service(t)))
	e.initialize([]string{dir, dir + "/in"}, nil)
	e.open("file://"+dir+"/in/a.sh", "sh", "echo unsaved\n")
	for folder, name := range map[string]string{dir: "in/a.sh", dir + "/in": "a.sh"} {
		run := e.run(map[string]any{"folder": "file://" + folder, "command": []string{"sh", name}})
		if out := e.printed(run["run_id"], "stdout"); out != "unsaved\n" {
			t.Errorf("%s: %q", name, out)
		}
	}
}

// Two editors on one folder do not see each other's unsaved texts. Their sessions end with them, also if a program runs there or the folder is
// no longer open, and so do their other runs.
func TestTwoEditors(t *testing.T) {
	s := service(t)
	dir := makeFolder(t, map[string]string{"a.sh": "echo disk; read a\n"})
	uri := "file://" + dir + "/a.sh"
	one, two := start(t, with(s)), start(t, with(s))
	one.initialize([]string{dir}, nil)
	two.initialize([]string{dir}, nil)
	one.open(uri, "sh", "echo disk; read a\n")
	one.change(uri, 2, nil, "echo unsaved\n")
	two.run(map[string]any{"uri": uri})
	first, second := one.run(map[string]any{"uri": uri}), two.command("tldw.sandbox.run", map[string]any{"uri": uri, "interactive": true}).object(t)
	logLine := two.wait(func(m message) bool { return m.Method == "belljar/log" && m.object(t)["run_id"] == second["run_id"] })
	if text := logLine.object(t)["data"]; text != "disk\n" {
		t.Errorf("%q", text)
	}
	one.notify("workspace/didChangeWorkspaceFolders", map[string]any{"event": map[string]any{"removed": []any{map[string]any{"uri": "file://" + dir}}}})
	one.refused("tldw.sandbox.run", map[string]any{}, -32602, "no folder open")
	lone := two.command("tldw.sandbox.run", map[string]any{"uri": "file://" + makeFolder(t, map[string]string{"b.sh": "echo; read b"}) + "/b.sh", "interactive": true}).object(t)
	two.wait(func(m message) bool { return m.Method == "belljar/log" && m.object(t)["run_id"] == lone["run_id"] })
	if m := two.call("shutdown", nil); m.Error != nil {
		t.Error(m.Error)
	}
	two.notify("exit", nil)
	for e, session := range map[*editor]any{one: first["session_id"], two: second["session_id"]} {
		if err := e.close(); err != nil {
			t.Error(err)
		}
		if got, err := s.Sessions().Get(t.Context(), session.(string)); err != nil || !got.State.Ended() {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, run := range []any{second["run_id"], lone["run_id"]} {
		if got, _, err := belljar.Collect(t.Context(), s.Runs(), run.(string)); err != nil || got.Phase != belljar.PhaseKilled {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// fullService is a server that accepts uploads unless full returns an error.
type fullService struct {
	belljar.Service
	full *error
}

// Sessions gives access to sessions.
func (s fullService) Sessions() belljar.Sessions { return fullSessions{s.Service.Sessions(), s.full} }

type fullSessions struct {
	belljar.Sessions
	full *error
}

// Upload fails or uploads.
func (s fullSessions) Upload(ctx context.Context, id string, u belljar.Upload) (belljar.UploadResult, error) {
	if *s.full != nil {
		return belljar.UploadResult{}, *s.full
	}
	return s.Sessions.Upload(ctx, id, u)
}

// openingService is a server that keeps the requests for sessions.
type openingService struct {
	belljar.Service
	requests *[]belljar.SessionRequest
}

// Sessions gives access to sessions.
func (s openingService) Sessions() belljar.Sessions {
	return openingSessions{s.Service.Sessions(), s.requests}
}

type openingSessions struct {
	belljar.Sessions
	requests *[]belljar.SessionRequest
}

// Open keeps the request.
func (s openingSessions) Open(ctx context.Context, req belljar.SessionRequest) (belljar.Session, bool, error) {
	*s.requests = append(*s.requests, req)
	return s.Sessions.Open(ctx, req)
}

// The startup timeout of a run is that of the session that it needs. Later runs with another one, or with none, use the same session.
func TestStartupTimeout(t *testing.T) {
	var requests []belljar.SessionRequest
	s := service(t)
	e := start(t, with(openingService{s, &requests}))
	e.initialize([]string{makeFolder(t, map[string]string{"x": ""})}, nil)
	me, err := s.Node().Me(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []float64{33, 44, 0} {
		args := map[string]any{"command": []string{"true"}}
		if limit != 0 {
			args["startup_timeout_sec"] = limit
		}
		got := e.run(args)
		run, err := s.Runs().Get(t.Context(), got["run_id"].(string))
		if want := cmp.Or(limit, me.Limits.StartupTimeoutSec); err != nil || got["exit_code"] != 0.0 || run.ResourceUsage.Limits.StartupTimeoutSec != want {
			t.Errorf("%v %v: %+v, want %v", got, err, run.ResourceUsage.Limits, want)
		}
	}
	if len(requests) != 1 || requests[0].StartupTimeoutSec != 33 {
		t.Errorf("%+v", requests)
	}
}

// If files could not be sent, the next run sends them, and files that were deleted for them.
func TestSentInPart(t *testing.T) {
	var full error
	dir := makeFolder(t, map[string]string{"old/a": "a"})
	e := start(t, with(fullService{service(t), &full}))
	e.initialize([]string{dir}, nil)
	prints := func(want string, command ...string) {
		t.Helper()
		if got := e.run(map[string]any{"command": command}); e.printed(got["run_id"], "stdout") != want {
			t.Errorf("%q, want %q", e.printed(got["run_id"], "stdout"), want)
		}
	}
	prints("a", "cat", "old/a")
	if err := errors.Join(os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, "new")), os.WriteFile(filepath.Join(dir, "b"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	full = &belljar.Error{Code: belljar.CodeDiskFull, Message: "the workspace is full"}
	e.refused("tldw.sandbox.run", map[string]any{"command": []string{"true"}}, -32057, "full")
	full = nil
	if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	prints("a", "cat", "old/a")
	prints("b\nold\n", "ls")
}

// The mark in a closed file moves to the editor's spelling of the URI when the editor opens the file. It disappears with its line, and when the
// file changes on disk, under either spelling.
func TestSpelling(t *testing.T) {
	dir := makeFolder(t, map[string]string{"a+b/main.py": "import helper\nhelper.f()\n", "a+b/helper.py": "def f():\n    return 1 / 0\n"}) + "/a+b"
	own, editors := "file://"+dir+"/helper.py", "file://"+strings.ReplaceAll(dir, "+", "%2B")+"/helper.py"
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	shows := func(uri string, n int) {
		t.Helper()
		if d := e.diagnostics(uri); len(d) != n {
			t.Errorf("%s: %v", uri, d)
		}
	}
	e.run(map[string]any{"uri": "file://" + dir + "/main.py"})
	shows(own, 1)
	e.open(editors, "python", "def f():\n    return 1 / 0\n")
	shows(own, 0)
	shows(editors, 1)
	e.change(editors, 2, []int{1, 11, 1, 16}, "1")
	shows(editors, 0)
	e.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": editors}})
	e.run(map[string]any{"uri": "file://" + dir + "/main.py"})
	shows(own, 1)
	e.notify("workspace/didChangeWatchedFiles", map[string]any{"changes": []any{map[string]any{"uri": editors, "type": 2}}})
	shows(own, 0)
}

// A program starts in the folder that cwd names, even if the name begins with a dash.
func TestCwd(t *testing.T) {
	e := start(t, with(service(t)))
	e.initialize([]string{makeFolder(t, map[string]string{".tools/x": "", "etc/x": ""})}, nil)
	for cwd, want := range map[string]string{".tools": "/workspace/.tools\n", "./etc": "/workspace/etc\n", ".tools/../etc/": "/workspace/etc\n", "./": "/workspace\n"} {
		got := e.run(map[string]any{"command": []string{"pwd"}, "cwd": cwd})
		if out := e.printed(got["run_id"], "stdout"); out != want {
			t.Errorf("%s: %q %v", cwd, out, got["message"])
		}
	}
}

// A program starts in the workspace, even if the image names another folder.
func TestImageWithFolder(t *testing.T) {
	ref, image := apitest.WithImage(t, map[string]any{"WorkingDir": "/usr"})
	w := apitest.NewWorld(t, []string{"memory"}, image)
	dir := makeFolder(t, map[string]string{"main.py": "print(open('note').read())\n", "note": "here"})
	e := start(t, with(placed{w.Service.As(belljar.Caller{ID: "ann", Role: belljar.RoleUser})}))
	e.initialize([]string{dir}, nil)
	for _, what := range []map[string]any{{"uri": "file://" + dir + "/main.py"}, {"command": []string{"cat", "note"}}} {
		what["base_image"] = ref
		got := e.run(what)
		if out := strings.TrimSpace(e.printed(got["run_id"], "stdout")); out != "here" {
			t.Errorf("%v: %q %v %s", what, out, got["message"], e.printed(got["run_id"], "stderr"))
		}
	}
}

// A file replaces a folder in the sandbox, and a folder replaces a file or a link, no matter which program made them.
func TestInTheWay(t *testing.T) {
	const far = "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/far" // deeper than one upload allows
	dir := makeFolder(t, map[string]string{"was/a": "a", "was/b": "b", "mine/c": "", "mine/d": "", "ours/c": "", "ours/d": "", far: "6"})
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	e.run(map[string]any{"command": []string{"sh", "-c", "mkdir -p was/made made/by; touch deep; ln -s /tmp to; rm -r mine ours; touch mine; ln -s /tmp ours"}})
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "was")), os.Remove(filepath.Join(dir, "mine/c")), os.Remove(filepath.Join(dir, "ours/c"))); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"was": "1", "made/by": "2", "deep/er/x": "3", "deep/y": "4", "to/z": "5"} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	got := e.run(map[string]any{"command": []string{"cat", "was", "made/by", "deep/er/x", "deep/y", "to/z", far}})
	if out := e.printed(got["run_id"], "stdout"); out != "123456" {
		t.Errorf("%q %s", out, e.printed(got["run_id"], "stderr"))
	}
}
