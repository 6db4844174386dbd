//go:build linux

package lsp_test

import (
	"strings"
	"testing"
)

// args are the argument of a command.
type args = map[string]any

// Edits while a program runs move its marks, and remove those whose line changed.
func TestEditedWhileItRuns(t *testing.T) {
	source := "var é = b\n\nvar x = c\n"
	dir := makeFolder(t, map[string]string{"x.sh": "read a; echo 'a.go:1:5: undefined: b' >&2; echo 'a.go:3:9: undefined: c' >&2; exit 1\n", "a.go": source, "y.sh": "read a\nexit 3\n"})
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	uri, lone := "file://"+dir+"/a.go", "file://"+dir+"/y.sh"
	e.open(uri, "go", source)
	id := e.ask("workspace/executeCommand", args{"command": "tldw.sandbox.run", "arguments": []any{args{"uri": "file://" + dir + "/x.sh", "interactive": true, "wait": true}}})
	run := e.next("belljar/run")["run_id"]
	e.change(uri, 2, []int{2, 0, 2, 0}, "// more\n\n")
	e.change(uri, 3, []int{0, 8, 0, 9}, "1")
	e.command("belljar.sandbox.input", args{"run_id": run, "data": "\n"}).object(t)
	e.answer(id)
	var d []any
	for _, m := range e.queue {
		if m.Method != "textDocument/publishDiagnostics" {
			continue
		}
		d = m.object(t)["diagnostics"].([]any)
		for _, one := range d {
			if at := where(one.(args)); at != "4:8-4:9" {
				t.Errorf("%s: %v", at, one)
			}
		}
	}
	if len(d) != 1 {
		t.Errorf("%v", d)
	}

	// A failure without a place is at the lens, which moves, too.
	e.open(lone, "sh", "read a\nexit 3\n")
	run = e.command("tldw.sandbox.run", args{"uri": lone, "interactive": true}).object(t)["run_id"]
	e.change(lone, 2, []int{0, 0, 0, 0}, "\n\n")
	e.command("belljar.sandbox.input", args{"run_id": run, "data": "\n"}).object(t)
	if d := e.diagnostics(lone); len(d) != 1 || where(d[0]) != "2:0-2:6" {
		t.Errorf("%v", d)
	}
}

// A file that is closed without saving loses its marks, which stand at the lines of the discarded text. One that is saved keeps them.
func TestClosedUnsaved(t *testing.T) {
	source := "read a\nexit 3\n"
	dir := makeFolder(t, map[string]string{"x.sh": source})
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	uri := "file://" + dir + "/x.sh"
	e.open(uri, "sh", source)
	fail := func(meanwhile func()) []map[string]any {
		run := e.command("tldw.sandbox.run", args{"uri": uri, "interactive": true}).object(t)["run_id"]
		meanwhile()
		e.command("belljar.sandbox.input", args{"run_id": run, "data": "\n"}).object(t)
		return e.diagnostics(uri)
	}
	if d := fail(func() {}); len(d) != 1 {
		t.Fatalf("%v", d)
	}
	e.change(uri, 2, []int{0, 0, 0, 0}, "\n\n")
	if d := e.diagnostics(uri); len(d) != 1 || where(d[0]) != "2:0-2:6" {
		t.Errorf("after the edit: %v", d)
	}
	closed := map[string]any{"textDocument": map[string]any{"uri": uri}}
	e.notify("textDocument/didClose", closed)
	if d := e.diagnostics(uri); len(d) != 0 {
		t.Errorf("after the close: %v", d)
	}
	e.open(uri, "sh", source)
	if d := fail(func() {
		e.change(uri, 2, []int{0, 0, 0, 0}, "\n\n")
		e.notify("textDocument/didClose", closed)
	}); len(d) != 1 || where(d[0]) != "0:0-0:6" {
		t.Errorf("closed while it runs: %v", d)
	}
	e.open(uri, "sh", source)
	e.notify("textDocument/didClose", closed)
	e.call("textDocument/codeLens", closed)
	for _, m := range e.queue {
		if m.Method == "textDocument/publishDiagnostics" {
			t.Errorf("closed without an edit: %s", m.Params)
		}
	}
}

// Of two runs of a file, the marks and the lens are those of the newer one, even if the older one ends later.
func TestOlderRunEndsLater(t *testing.T) {
	source := "read a\nexit $a\n"
	dir := makeFolder(t, map[string]string{"x.sh": source})
	e := start(t, with(service(t)))
	e.initialize([]string{dir}, nil)
	uri := "file://" + dir + "/x.sh"
	e.open(uri, "sh", source)
	older := e.ask("workspace/executeCommand", args{"command": "tldw.sandbox.run", "arguments": []any{args{"uri": uri, "interactive": true, "wait": true}}})
	first := e.next("belljar/run")["run_id"]
	second := e.command("tldw.sandbox.run", args{"uri": uri, "interactive": true}).object(t)["run_id"]
	e.command("belljar.sandbox.input", args{"run_id": second, "data": "4\n"}).object(t)
	if d := e.diagnostics(uri); len(d) != 1 || !strings.Contains(d[0]["message"].(string), "status 4") {
		t.Errorf("%v", d)
	}
	e.wait(func(m message) bool { return m.Method == "workspace/codeLens/refresh" })
	e.command("belljar.sandbox.input", args{"run_id": first, "data": "5\n"}).object(t)
	e.answer(older)
	for _, m := range e.queue {
		if m.Method == "textDocument/publishDiagnostics" {
			t.Errorf("%s", m.Params)
		}
	}
	lenses := e.call("textDocument/codeLens", map[string]any{"textDocument": map[string]any{"uri": uri}})
	if !strings.Contains(string(lenses.Result), "✗ exit 4") {
		t.Errorf("%s", lenses.Result)
	}
}
