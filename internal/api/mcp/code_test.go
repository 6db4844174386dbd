//go:build linux

package mcp_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/api/mcp"
)

// Variables persist between calls, and pictures are returned as pictures.
func TestSandboxCode(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", code())
	sandbox := p.open()
	cell := func(text string) result {
		return p.tool("sandbox_code", map[string]any{"sandbox_id": sandbox, "code": text})
	}
	cell("x = 41").good(t)
	r := cell("print('out')\nx + 1").good(t)
	if !strings.Contains(r.text, "value:\n42") || r.data["stdout"] != "out\n" || r.data["status"] != "completed" {
		t.Errorf("%q %v", r.text, r.data)
	}
	dot, err := os.ReadFile("testdata/dot.png")
	if err != nil {
		t.Fatal(err)
	}
	r = cell("display({'image/png': '" + base64.StdEncoding.EncodeToString(dot) + "'}, raw=True)").good(t)
	if !strings.Contains(r.text, "picture 1.png: a picture (png") || len(r.parts) != 2 || r.parts[1]["type"] != "image" {
		t.Errorf("%q %v", r.text, r.parts)
	}
	r = cell("for _ in range(10): display({'image/png': '" + base64.StdEncoding.EncodeToString(dot) + "'}, raw=True)").good(t)
	if !strings.Contains(r.text, "pictures that are not shown: 2.") || len(r.parts) != 9 {
		t.Errorf("%q has %d parts", r.text, len(r.parts))
	}
	if r := cell("display({'image/svg+xml': '<svg/>'}, raw=True)").good(t); !strings.Contains(r.text, "display without text: image/svg+xml") || len(r.parts) != 1 {
		t.Errorf("%q %v", r.text, r.parts)
	}
	if r := cell("1/0").good(t); r.data["exit_code"] != 1.0 || !strings.Contains(r.text, "ZeroDivisionError") {
		t.Errorf("%q %v", r.text, r.data)
	}
	if r := p.tool("sandbox_code", map[string]any{"sandbox_id": sandbox, "code": "x", "language": "ruby"}); !strings.Contains(r.text, "no interpreter that keeps its state") {
		t.Errorf("%q", r.text)
	}
}

// Code that names no language is in the operator's, if that has an interpreter that remembers.
func TestCodeLanguage(t *testing.T) {
	w := newWorld(t)
	for language, want := range map[string]string{"bash": "bash\n", "go": "python\n"} {
		p := w.peer("ann", code(func(t *mcp.Terms) { t.Language = language }))
		text := map[string]string{"bash\n": "echo bash", "python\n": "print('python')"}[want]
		if r := p.tool("sandbox_code", map[string]any{"sandbox_id": p.open(), "code": text}).good(t); r.data["stdout"] != want {
			t.Errorf("%s: %v", language, r.data)
		}
	}
}

// The results of code are bounded like its output, whatever their number and names.
func TestCodeShowsMuch(t *testing.T) {
	p := newWorld(t).peer("ann", code())
	sandbox := p.open()
	const most = 24 << 10
	for text, want := range map[string]string{
		"for i in range(5000): display(i)":                                                   "note: results that are not shown: 4",
		"for i in range(100): display({'text/%04d' % n: 'x' for n in range(200)}, raw=True)": "note: results that are not shown: 8",
		"raise type('E' * 100000, (Exception,), {})('x')":                                    "",
		"for i in range(1000): display({'image/png': 'AAAA'}, raw=True)":                     "note: pictures that are not shown: 992",
	} {
		r := p.tool("sandbox_code", map[string]any{"sandbox_id": sandbox, "code": text}).good(t)
		raw, err := json.Marshal(r.data["results"])
		if err != nil || len(raw) > 3*most || len(r.text) > 2*most || !strings.Contains(r.text, want) {
			t.Errorf("%s: %d bytes of results, %d of text: …%s", text, len(raw), len(r.text), r.text[max(0, len(r.text)-200):])
		}
	}
}

// The value and the pictures of code that takes longer than a call waits come with the answer about its end.
func TestLongCode(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", code(func(t *mcp.Terms) { t.Wait = 300 * time.Millisecond }))
	sandbox := p.open()
	dot, err := os.ReadFile("testdata/dot.png")
	if err != nil {
		t.Fatal(err)
	}
	text := "import os, time\nwhile not os.path.exists('go'): time.sleep(.05)\n" +
		"display({'image/png': '" + base64.StdEncoding.EncodeToString(dot) + "'}, raw=True)\n41 + 1"
	r := p.tool("sandbox_code", map[string]any{"sandbox_id": sandbox, "code": text}).good(t)
	if r.data["status"] != "running" || !strings.HasSuffix(r.text, "That has its value and its pictures, too.") {
		t.Fatalf("%q %v", r.text, r.data)
	}
	p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "go", "contents": ""}).good(t)
	exec := r.data["exec_id"]
	until(t, "the code ends", func() bool {
		r = p.tool("sandbox_exec_wait", map[string]any{"sandbox_id": sandbox, "exec_id": exec}).good(t)
		return r.data["done"] == true
	})
	if list, _ := r.data["results"].([]any); !strings.Contains(r.text, "value:\n42") || len(list) != 2 || len(r.parts) != 2 || r.parts[1]["type"] != "image" {
		t.Errorf("%q %v", r.text, r.parts)
	}
}
