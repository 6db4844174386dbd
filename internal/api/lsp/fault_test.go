//go:build linux

package lsp_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
)

// logged is a service whose runs have the test's log.
type logged struct {
	belljar.Service
	frames func(yield func(belljar.Frame, error) bool)
}

// Runs gives access to runs.
func (s logged) Runs() belljar.Runs { return loggedRuns{s.Service.Runs(), s.frames} }

type loggedRuns struct {
	belljar.Runs
	frames func(yield func(belljar.Frame, error) bool)
}

// Frames waits for the run's end, and yields the test's frames.
func (r loggedRuns) Frames(ctx context.Context, id string, from uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		for _, err := range r.Runs.Frames(ctx, id, from) {
			if err != nil {
				yield(belljar.Frame{}, err)
				return
			}
		}
		r.frames(yield)
	}
}

// 200,000 lines: the editor shows the first 100 KB, in pieces of any size, and finds the failure after them. Binary output arrives
// unchanged.
func TestLongOutput(t *testing.T) {
	s := logged{service(t), func(yield func(belljar.Frame, error) bool) {
		lines := []byte(strings.Repeat("0123456789😀\n", 2000))
		for range 100 {
			if !yield(belljar.Frame{Type: belljar.FrameStdout, Output: lines}, nil) {
				return
			}
		}
		yield(belljar.Frame{Type: belljar.FrameStderr, Output: []byte("\xff\xfe\n")}, nil)
		yield(belljar.Frame{Type: belljar.FrameStderr, Output: []byte("Traceback (most recent call last):\n  File \"/workspace/x.py\", line 2, in <module>\nKeyError: 1\n")}, nil)
	}}
	dir := makeFolder(t, map[string]string{"x.py": "# é\r\nraise  KeyError('😀')\r\n"})
	uri := "file://" + dir + "/x.py"
	e := start(t, with(s))
	e.initialize([]string{dir}, nil)
	run := e.run(map[string]any{"uri": uri})
	out := e.printed(run["run_id"], "stdout")
	if len(out) > 100<<10 || len(out) < 100<<10-3 || !strings.HasPrefix(out, "0123456789😀\n") {
		t.Errorf("%d bytes", len(out))
	}
	cut := e.next("belljar/logTruncated")
	if cut["stream"] != "stdout" || cut["shown_bytes"] != 102400.0 || cut["title"] != "View full logs in Web UI" || cut["web_url"] != run["web_url"] {
		t.Errorf("%v", cut)
	}
	notes, binary := 0, false
	for _, m := range e.queue {
		if m.Method == "belljar/log" {
			p := m.object(t)
			notes++
			binary = binary || p["encoding"] == "base64" && strings.HasPrefix(p["data"].(string), "//4K")
			if len(p["data"].(string)) > 64<<10 {
				t.Errorf("a notification has %d bytes", len(p["data"].(string)))
			}
		}
	}
	if notes > 200 || !binary {
		t.Errorf("%d notifications, binary %v", notes, binary)
	}
	if d := e.diagnostics(uri); len(d) != 1 || where(d[0]) != "1:0-1:21" {
		t.Errorf("%v", d)
	}
}

// The output that waits at a run's end arrives in few notifications: in order if the limit of a second has room, else by stream.
func TestOutputAtTheEnd(t *testing.T) {
	pieces := 0
	s := logged{service(t), func(yield func(belljar.Frame, error) bool) {
		for i := range pieces {
			f := belljar.Frame{Type: []belljar.FrameType{belljar.FrameStdout, belljar.FrameStderr}[i%2], Seq: uint64(i + 1), Output: fmt.Appendf(nil, "%d😀\n", i)}
			if i == pieces-1 {
				f.Output = []byte("\xf0\x9f")
			}
			if !yield(f, nil) {
				return
			}
		}
	}}
	e := start(t, with(s))
	e.initialize([]string{makeFolder(t, map[string]string{"x": ""})}, nil)
	for _, pieces = range []int{11, 401} {
		run := e.run(map[string]any{"command": []string{"true"}})
		got, want := map[string]string{}, map[string]string{}
		for i := range pieces - 1 {
			want[[]string{"stdout", "stderr"}[i%2]] += fmt.Sprintf("%d😀\n", i)
		}
		notes, inOrder, rest := 0, true, map[string]any{}
		for _, m := range e.queue {
			if m.Method != "belljar/log" || m.object(t)["run_id"] != run["run_id"] {
				continue
			}
			p := m.object(t)
			if p["encoding"] != nil {
				rest = p
				continue
			}
			inOrder = inOrder && p["data"] == fmt.Sprintf("%d😀\n", notes)
			notes++
			got[p["stream"].(string)] += p["data"].(string)
		}
		if notes > 20 || inOrder != (pieces == 11) || !cmp.Equal(got, want) {
			t.Errorf("%d notifications, in order: %t, %s", notes, inOrder, cmp.Diff(want, got))
		}
		if rest["data"] != "8J8=" || rest["seq"] != float64(pieces) {
			t.Errorf("%v", rest)
		}
	}
}

// The output of runs is not kept after their end, although runs are remembered.
func TestOutputIsForgotten(t *testing.T) {
	lines := []byte(strings.Repeat("0123456789\n", 1000))
	s := logged{service(t), func(yield func(belljar.Frame, error) bool) {
		for range 200 {
			if !yield(belljar.Frame{Type: belljar.FrameStdout, Output: lines}, nil) {
				return
			}
		}
	}}
	dir := makeFolder(t, map[string]string{"x.sh": ""})
	e := start(t, with(s))
	e.initialize([]string{dir}, nil)
	held := func() uint64 {
		e.run(map[string]any{"folder": "file://" + dir, "command": []string{"true"}})
		e.queue = nil
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return now.HeapAlloc
	}
	before, after := held(), uint64(0)
	for range 10 {
		after = held()
	}
	if after > before+8<<20 {
		t.Errorf("10 runs hold %d bytes", after-before)
	}
}

// A compiler's messages are marked during the build, and replaced by the final result at its end.
func TestWhileItRuns(t *testing.T) {
	dir := makeFolder(t, map[string]string{"x.sh": "echo 'a.go:1:5: undefined: é'; read a; exit $a\n", "a.go": "var é = b\n"})
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	uri := "file://" + dir + "/a.go"
	for i, want := range []string{"undefined: é (exit status 3)", ""} {
		run := e.command("tldw.sandbox.run", map[string]any{"uri": "file://" + dir + "/x.sh", "interactive": true}).object(t)
		d := e.diagnostics(uri)
		if len(d) != 1 || where(d[0]) != "0:4-0:9" || d[0]["message"] != "undefined: é" || d[0]["code"] != nil {
			t.Fatalf("%v", d)
		}
		e.command("belljar.sandbox.input", map[string]any{"run_id": run["run_id"], "data": []string{"3\n", "0\n"}[i]}).object(t)
		d = e.diagnostics(uri)
		if want == "" && len(d) != 0 || want != "" && (len(d) != 1 || d[0]["message"] != want) {
			t.Errorf("%v, want %q", d, want)
		}
	}
}

// An editor that supports it is asked to report changes of files and of the setting for lenses. Its other settings are ignored.
func TestRegistration(t *testing.T) {
	dir := makeFolder(t, map[string]string{"x.py": "if __name__ == '__main__':\n    a\n", "A.java": "class A {\n@Test\nvoid x() {}\n}\n"})
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	asked := string(e.wait(func(m message) bool { return m.Method == "client/registerCapability" }).Params)
	for _, part := range []string{`"method":"workspace/didChangeConfiguration"`, `"section":"tldw.sandbox.codeLens"`, `"globPattern":"**/*.{py,`, `"globPattern":"**/{pom.xml,`} {
		if !strings.Contains(asked, part) {
			t.Errorf("no %s in %s", part, asked)
		}
	}
	uri := "file://" + dir + "/x.py"
	lenses := func(file string) string {
		return string(e.call("textDocument/codeLens", map[string]any{"textDocument": map[string]any{"uri": "file://" + dir + "/" + file}}).Result)
	}
	set := func(value any) {
		e.notify("workspace/didChangeConfiguration", map[string]any{"settings": map[string]any{"tldw": map[string]any{"sandbox": map[string]any{"codeLens": value, "serverUrl": "http://evil", "image": "evil"}}}})
	}
	refreshed := func() { e.wait(func(m message) bool { return m.Method == "workspace/codeLens/refresh" }) }
	set(false)
	refreshed()
	if got := lenses("x.py"); got != "[]" {
		t.Error(got)
	}
	set("no boolean")
	e.notify("workspace/didChangeConfiguration", map[string]any{"settings": nil})
	set(true)
	refreshed()
	if got := lenses("x.py"); got == "[]" {
		t.Error(got)
	}
	// A file that changes on disk loses its mark, and an open one keeps it.
	e.run(map[string]any{"uri": uri})
	if d := e.diagnostics(uri); len(d) != 1 {
		t.Errorf("%v", d)
	}
	changed := func(file string) {
		e.notify("workspace/didChangeWatchedFiles", map[string]any{"changes": []any{map[string]any{"uri": "file://" + dir + "/" + file, "type": 2}}})
	}
	changed("x.py")
	if d := e.diagnostics(uri); len(d) != 0 {
		t.Errorf("%v", d)
	}
	if got := lenses("A.java"); got != "[]" {
		t.Error(got)
	}
	if err := os.WriteFile(filepath.Join(dir, "pom.xml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	refreshed() // of the run
	changed("pom.xml")
	refreshed()
	if got := lenses("A.java"); !strings.Contains(got, "A#x") {
		t.Error(got)
	}
}

// A program that was compiled in the sandbox exists only there. Its source map leads to the file in the folder.
func TestMapsOfArtifacts(t *testing.T) {
	dir := makeFolder(t, map[string]string{"src/a.ts": "one\n  two\n", "build.sh": `mkdir dist
echo 'x();y() //# sourceMappingURL=a.js.map' >dist/a.js
echo '{"version":3,"sections":[{"offset":{"line":0,"column":4},"map":{"version":3,"sources":["../src/a.ts"],"mappings":"AACE"}}]}' >dist/a.js.map
printf 'TypeError: no\n    at f (/workspace/dist/a.js:1:5)\n    at g (/workspace/dist/b.js:1:5)\n' >&2
exit 1
`})
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	e.run(map[string]any{"uri": "file://" + dir + "/build.sh", "capture_patterns": []string{"dist/**"}})
	if d := e.diagnostics("file://" + dir + "/src/a.ts"); len(d) != 1 || where(d[0]) != "1:2-1:5" || d[0]["message"] != "TypeError: no (exit status 1)" {
		t.Errorf("%v", d)
	}
}

// A run of a command has no line for a mark. Its message names a place that is only in the sandbox.
func TestPlaceInTheSandbox(t *testing.T) {
	e := start(t, with(service(t)))
	e.initialize([]string{makeFolder(t, map[string]string{"x": ""})}, nil)
	const place = " at /opt/lib/x.js:1 (in the sandbox)"
	run := e.run(map[string]any{"command": []string{"sh", "-c", "printf 'TypeError: no\\n    at f (/opt/lib/x.js:1:5)\\n' >&2; exit 1"}})
	if run["message"] != "command exited with status 1"+place {
		t.Errorf("%v", run)
	}
	if end := e.wait(func(m message) bool { return m.Method == "belljar/run" && m.object(t)["phase"] == "failed" }); end.object(t)["message"] != run["message"] {
		t.Errorf("%s", end.Params)
	}
	if end := e.wait(func(m message) bool { return m.Method == "$/progress" && strings.Contains(string(m.Params), `"end"`) }); !strings.Contains(string(end.Params), place) {
		t.Errorf("%s", end.Params)
	}
	for _, c := range []struct{ text, place string }{ // as of python3 -c, node -e and the like
		{"bash: line 1: nosuch: command not found", ""},
		{"sh: 1: nosuch: not found", ""},
		{"/opt/run.sh: line 1: nosuch: command not found", " at /opt/run.sh:1 (in the sandbox)"},
		{"Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nZeroDivisionError: division by zero", ""},
		{"[eval]:1\nthrow new Error(\"no\")\n^\n\nError: no\n    at [eval]:1:7\n    at runScriptInThisContext (node:internal/vm:209:10)", ""},
		{"node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module '/workspace/y.js'\n    at node:internal/modules/cjs/loader:1225:15", ""},
		{"Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\n  File \"/usr/lib/python3.11/json/__init__.py\", line 346, in loads\nValueError: no",
			" at /usr/lib/python3.11/json/__init__.py:346 (in the sandbox)"},
	} {
		run := e.run(map[string]any{"command": []string{"sh", "-c", `printf '%s\n' "$0" >&2; exit 1`, c.text}})
		if run["message"] != "command exited with status 1"+c.place {
			t.Errorf("%q: %v", c.text, run["message"])
		}
	}
}

// If a session ends while a program runs in it, the run ends, too. The next run has another session, with the whole folder.
func TestSessionEndsInMidRun(t *testing.T) {
	s := service(t)
	dir := makeFolder(t, map[string]string{"x.sh": "echo one; read a\n"})
	e := start(t, with(s))
	e.initialize([]string{dir}, nil)
	uri := "file://" + dir + "/x.sh"
	run := e.command("tldw.sandbox.run", map[string]any{"uri": uri, "interactive": true}).object(t)
	e.wait(func(m message) bool { return m.Method == "belljar/log" })
	if err := s.Sessions().Delete(t.Context(), run["session_id"].(string)); err != nil {
		t.Fatal(err)
	}
	end := e.wait(func(m message) bool {
		return m.Method == "belljar/run" && m.object(t)["phase"] != "running" && m.object(t)["phase"] != "starting" && m.object(t)["phase"] != "queued"
	}).object(t)
	if end["run_id"] != run["run_id"] || end["phase"] == "completed" {
		t.Errorf("%v", end)
	}
	next := e.run(map[string]any{"command": []string{"cat", "x.sh"}})
	if next["exit_code"] != 0.0 || next["session_id"] == run["session_id"] {
		t.Errorf("%v", next)
	}
}

// The output of a program cannot lead out of the folder, or make the editor show more than the limits.
func TestHostileOutput(t *testing.T) {
	secret := makeFolder(t, map[string]string{"key.py": "secret\n"})
	var text strings.Builder
	for _, place := range []string{"/etc/passwd", "/workspace/../../etc/passwd", "../" + filepath.Base(secret) + "/key.py", secret + "/key.py", "out/key.py", "/workspace/out/key.py", "file://" + secret + "/key.py", `..\..\key.py`, "C:/key.py"} {
		fmt.Fprintf(&text, "%s:1:1: error: here\n", place)
	}
	for n := range 2000 {
		fmt.Fprintf(&text, "x.c:%d:1: error: \x1b]8;;http://evil\x07number\x1b[31m %d\n", n+1, n)
	}
	s := logged{service(t), func(yield func(belljar.Frame, error) bool) {
		for i := 0; i < text.Len(); i += 4096 {
			if !yield(belljar.Frame{Type: belljar.FrameStderr, Output: []byte(text.String()[i:min(i+4096, text.Len())])}, nil) {
				return
			}
		}
	}}
	dir := makeFolder(t, map[string]string{"x.c": strings.Repeat("int x;\n", 50), "x.sh": ""})
	if err := os.Symlink(secret, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	e := start(t, with(s))
	e.initialize([]string{dir}, nil)
	e.run(map[string]any{"folder": "file://" + dir, "command": []string{"false"}})
	e.call("textDocument/codeLens", map[string]any{"textDocument": map[string]any{"uri": "file://" + dir + "/x.sh"}}) // by now earlier messages have arrived
	shown := 0
	for _, m := range e.queue {
		if m.Method == "textDocument/publishDiagnostics" {
			p := m.object(t)
			if p["uri"] != "file://"+dir+"/x.c" || strings.ContainsRune(string(m.Params), 0x1b) || strings.Contains(string(m.Params), "evil") {
				t.Errorf("%.300s", m.Params)
			}
			shown = len(p["diagnostics"].([]any))
		}
	}
	if shown != 100 {
		t.Errorf("%d diagnostics", shown)
	}
}

// A start can be cancelled, even if the editor has not answered all requests yet.
func TestCancelledStart(t *testing.T) {
	dir := makeFolder(t, nil)
	t.Setenv("HOME", dir) // so that the editor is asked to confirm before the folder is sent
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	run := map[string]any{"command": "tldw.sandbox.run", "arguments": []any{map[string]any{"command": []string{"true"}}}}
	id := e.ask("workspace/executeCommand", run)
	create := e.read()
	for ; create.Method != "window/workDoneProgress/create"; create = e.read() {
	}
	e.notify("$/cancelRequest", map[string]any{"id": id})
	if m := e.answer(id); m.Error == nil || m.Error.Code != -32800 {
		t.Errorf("%+v", m)
	}
	e.send(map[string]any{"id": create.ID, "result": nil}) // late: it must not be answered
	id = e.ask("workspace/executeCommand", run)
	for m := e.read(); m.Method != "window/showMessageRequest"; m = e.read() { // the request stays unanswered
		switch m.Method {
		case "window/workDoneProgress/create":
			e.send(map[string]any{"id": m.ID, "result": nil})
		case "":
			t.Errorf("%s %+v", m.ID, m.Error)
		}
	}
	e.notify("window/workDoneProgress/cancel", map[string]any{"token": "belljar-run-2"})
	if m := e.answer(id); m.Error == nil || m.Error.Code != -32800 {
		t.Errorf("%+v", m)
	}
}

// acceptingService is a server that accepts a run, and answers once the client has cancelled the start.
type acceptingService struct {
	belljar.Service
	accepted chan string // ids of runs
	answer   chan struct{}
}

// Runs gives access to runs.
func (s acceptingService) Runs() belljar.Runs { return acceptingRuns{s.Service.Runs(), s} }

type acceptingRuns struct {
	belljar.Runs
	s acceptingService
}

// Start loses the answer if the request is cancelled, as a connection does.
func (r acceptingRuns) Start(ctx context.Context, req belljar.RunRequest) (belljar.Run, error) {
	run, err := r.Runs.Start(context.WithoutCancel(ctx), req)
	if err != nil {
		return run, err
	}
	r.s.accepted <- run.ID
	select {
	case <-r.s.answer:
		return run, nil
	case <-ctx.Done():
		return belljar.Run{}, ctx.Err()
	}
}

// A start that is cancelled after the server has accepted the run stops the run.
func TestCancelledAfterAccepted(t *testing.T) {
	s := acceptingService{service(t), make(chan string), make(chan struct{}, 1)}
	e := start(t, with(s))
	e.initialize([]string{makeFolder(t, nil)}, nil)
	for _, way := range []string{"request", "progress"} {
		id := e.ask("workspace/executeCommand", map[string]any{
			"command": "tldw.sandbox.run", "arguments": []any{map[string]any{"command": []string{"sleep", "30"}}},
		})
		create := e.wait(func(m message) bool { return m.Method == "window/workDoneProgress/create" })
		run := <-s.accepted
		if way == "request" {
			e.notify("$/cancelRequest", map[string]any{"id": id})
		} else {
			e.notify("window/workDoneProgress/cancel", map[string]any{"token": create.object(t)["token"]})
		}
		e.call("textDocument/codeLens", map[string]any{"textDocument": map[string]any{"uri": "file:///none"}}) // its answer follows the cancellation
		s.answer <- struct{}{}
		if m := e.answer(id); m.Error == nil || m.Error.Code != -32800 {
			t.Errorf("%s: %+v", way, m)
		}
		if _, _, err := belljar.Collect(t.Context(), s.Service.Runs(), run); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Service.Runs().Get(t.Context(), run); err != nil || got.Phase != belljar.PhaseKilled {
			t.Errorf("%s: %v, %v", way, got.Phase, err)
		}
	}
}
