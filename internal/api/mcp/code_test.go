//go:build linux

package mcp_test

import (
	"encoding/base64"
	"os"
	"strings"
	"testing"
)

// Code remembers, and its pictures are pictures.
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
