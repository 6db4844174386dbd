//go:build linux

package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/api/mcp"
)

// unfit returns messages that are refused immediately, because decoding would change them, or because no answer could carry their
// id.
func unfit() map[string][2]string {
	call := func(contents string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"sandbox_open","arguments":{"session_key":"` + contents + `"}}}`
	}
	ping := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }
	return map[string][2]string{
		"bytes that are no text": {call("a\xffb"), "UTF-8"},
		"half a pair":            {call(`\ud800`), "surrogate"},
		"an id that is rounded":  {ping("9007199254740993"), "id is 9007199254740993"},
		"an id of a half":        {ping("1.5"), "id is 1.5"},
		"an id without end":      {ping("1e30"), "id is 1e30"},
		"an id that is none":     {ping("null"), "id is null"},
		"an id with zeros":       {ping("007"), "is not JSON"},
		"much that is kept":      {`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"x":"` + strings.Repeat("x", 64<<10) + `"}}`, "65536 bytes and 1000 values at most"},
		"many values kept":       {`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"x":[` + strings.Repeat("{},", 1000) + `{}]}}`, "65536 bytes and 1000 values at most"},
		"many more values kept":  {`{"jsonrpc":"2.0","id":7,"method":"notifications/initialized","params":{"x":[` + strings.Repeat("{},", 1000) + `{}]}}`, "1000 values at most"},
		"much, and little":       {`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"x":"` + strings.Repeat("x", 64<<10) + `"},"Params":{}}`, "65536 bytes and 1000 values at most"},
		"much, as another":       {`{"jsonrpc":"2.0","id":7,"method":"initialize","Method":"ping","params":{"x":"` + strings.Repeat("x", 64<<10) + `"}}`, "65536 bytes and 1000 values at most"},
		"an id, and no id":       {`{"jsonrpc":"2.0","id":1.5,"ID":2,"method":"ping"}`, "id is 1.5"},
		"a message, and more":    {ping("1") + ping("2"), "is not JSON"},
		"too many values":        {`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":[` + strings.Repeat("1,", 200_000) + `1]}}`, "100000 values at most"},
		"too many messages":      {"[" + strings.Repeat(ping("1")+",", 200) + ping("2") + "]", "100 messages at most"},
		"much of nothing":        {"[" + strings.Repeat("1,", 4<<20) + "1]", "100000 values at most"},
	}
}

func TestPlainUnfitMessages(t *testing.T) {
	w := newWorld(t)
	l := w.stdio("ann", code())
	initialize(t, l, "tests")
	for name, c := range unfit() {
		l.line(c[0])
		if r := l.next(); r.Error == nil || r.Error.Code > -32600 || !strings.Contains(r.Error.Message, c[1]) {
			t.Errorf("%s: %.300s", name, r.raw)
		} else if strings.Contains(c[0], `"id":7`) && r.ID != 7. {
			t.Errorf("%s: the client cannot match the answer to its call: %.300s", name, r.raw)
		}
	}
	l.line(`{"jsonrpc":"2.0","id":"last","method":"ping"}`)
	if r := l.next(); r.ID != "last" || r.Error != nil {
		t.Errorf("the next message: %s", r.raw)
	}
	l.close()
}

func TestPlainUnfitMessagesOverHTTP(t *testing.T) {
	h := newWorld(t).httpServer(nil)
	p, c := h.peer(t, "ann", "?mode=code")
	for name, x := range unfit() {
		if got := bodyOf(t, c.post(context.Background(), x[0])); !strings.Contains(got, "400") || !strings.Contains(got, x[1]) {
			t.Errorf("%s: %.300s", name, got)
		}
	}
	p.open()
}

// The answer to a line that is too long has the id of the request, in the orders in which clients write it.
func TestPlainLongMessages(t *testing.T) {
	w := newWorld(t)
	l := w.stdio("ann", code())
	initialize(t, l, "tests")
	large := strings.Repeat(`{"id":1},`, 2<<20)
	for _, c := range []struct {
		line string
		id   any
	}{
		{`{"jsonrpc":"2.0","id":8,"method":"ping","params":{"x":[` + large + `1]}}`, 8.},
		{`{"method": "ping", "params": {"x": [` + large + `1]}, "jsonrpc": "2.0", "id": "a-8"}`, "a-8"},
		{`{"jsonrpc":"2.0","method":"notifications/x","params":{"x":[` + large + `{"id":1}]}}`, nil},
		{`{"jsonrpc":"2.0","id":8,"result":{"method":[` + large + `1]}}`, nil},
		{`{"result":{"method":[` + large + `1]},"jsonrpc":"2.0","id":8}`, nil},
		{`[{"jsonrpc":"2.0","id":8,"method":"ping","params":{"x":[` + large + `1]}}]`, nil},
	} {
		l.line(c.line)
		if r := l.next(); r.Error == nil || r.ID != c.id || !strings.Contains(r.Error.Message, "16777216 bytes") {
			t.Errorf("%.60s: %.300s", c.line, r.raw)
		}
	}
	l.close()
}

// A request with the id of a pending one is refused, and the pending one is answered.
func TestSameIDTwice(t *testing.T) {
	w := newWorld(t)
	l := w.stdio("ann", code(func(t *mcp.Terms) { t.Wait = patience }))
	p := initialize(t, l, "tests")
	sandbox := p.open()
	exec := func(command string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":500,"method":"tools/call","params":{"name":"sandbox_exec","arguments":{"sandbox_id":%q,"cmd":["sh","-c",%q]}}}`, sandbox, command)
	}
	l.line(exec("until [ -e go ]; do sleep 0.01; done; echo first"))
	l.line(exec("echo second"))
	if r := l.next(); r.Error == nil || r.ID != 500. || !strings.Contains(r.Error.Message, "request in progress") {
		t.Errorf("the second: %s", r.raw)
	}
	p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "go", "contents": ""}).good(t)
	if r := p.answer(500); r.tool(t).data["stdout"] != "first\n" { // it may arrive before the answer to the write
		t.Errorf("the first: %s", r.raw)
	}
	l.line(exec("echo third"))
	if r := l.next(); r.ID != 500. || r.tool(t).data["stdout"] != "third\n" {
		t.Errorf("an id that is free again: %s", r.raw)
	}
	ping := `{"jsonrpc":"2.0","id":501,"method":"ping"}`
	l.line("[" + ping + "," + ping + "]")
	if r := l.next(); r.ID != 501. || r.Error == nil {
		t.Errorf("twice in a batch: %s", r.raw)
	}
	raw, err := l.in.ReadBytes('\n')
	if err != nil || !strings.HasPrefix(string(raw), "[") || !strings.Contains(string(raw), `"result"`) {
		t.Errorf("the batch: %s, %v", raw, err)
	}
	l.close()
}
