package workspace

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/socket"
)

type fakeInput struct {
	belljar.Stdin
	replies []byte
}

func (f *fakeInput) Write(b []byte) (int, error) {
	f.replies = append(f.replies, b...)
	return len(b), nil
}
func (f *fakeInput) Close() error { return nil }

func seeds(f *testing.F) {
	for _, s := range []string{
		"", "ls\n", "{", `{"type":"input","data":"x"}`, `{"type":"input","data":1}`, `{"type":"resize","cols":-1}`, `{"type":"ping"}`, "5", "null", `"x"`, " {} ",
		`{"type":"user","message":"x"}`, `{"type":"user","message":[{"type":"text"}]}`, `{"type":"user","message":{"content":"x"}}`, `{"type":"user","message":null}`,
		`{"type":"user","message":"x","context_files":["../x"],"images":[{"data":"!","mimeType":"image/png"}]}`, `{"type":"command","command":"/x"}`,
		`{"type":"control","subtype":"initialize","capabilities":{}}`, `{"type":"control_response","request_id":"r","response":{"behavior":"allow"}}`,
		`{"type":"approval_response","request_id":"r","approved":true,"updatedInput":{"a":1}}`,
		`{"type":"control_response","tool_id":"r","decision":"always","tool_input":{ },"permission_suggestions":[ 1 ]}`,
		`{"type":"control_response","response":{"subtype":"success","request_id":"r","response": {}}}`, `{"type":"control_response","request_id":"r","answers":{"0":"x"}}`,
		`{"type":"user","images":[{"data":"data:;base64,aGk="}]}`, `{"type":"control","subtype":"set_model","model":"x"}`, "\xff", `{"type":"user","message":"\ud800"}`,
	} {
		f.Add(true, []byte(s))
	}
}

// FuzzTerminalMessage sends any message to a terminal: its answer must be JSON.
func FuzzTerminalMessage(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text bool, raw []byte) {
		p := &socket.Screen{Attachment: screen{}, Dialect: ptyDialect{}}
		_ = p.Receive(t.Context(), text, raw, func(m any) error { _, err := socket.Encode(m); return err })
	})
}

// screen is a terminal that accepts all input.
type screen struct{ belljar.Attachment }

func (screen) Write(context.Context, []byte) error { return nil }
func (screen) Resize(cols, rows int) error         { return belljar.CheckTerminalSize(cols, rows) }

// FuzzChatMessage sends any message to a chat: the program must read one JSON object on one line.
func FuzzChatMessage(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text bool, raw []byte) {
		var m message
		if json.Unmarshal(raw, &m) == nil && (m.Type == "interrupt" || m.Type == "restart" || m.Subtype == "interrupt") {
			return // such messages need an engine
		}
		in := &fakeInput{}
		x := &chat{call: &call{door: &Door{}}, program: &program{stdin: in}}
		if err := x.Receive(t.Context(), text, raw, func(m any) error { _, err := socket.Encode(m); return err }); err != nil {
			return
		}
		for i, b := range in.replies {
			if b == '\n' && i != len(in.replies)-1 {
				t.Fatalf("%q makes two lines: %q", raw, in.replies)
			}
		}
		var line map[string]any
		if len(in.replies) > 0 && json.Unmarshal(in.replies, &line) != nil {
			t.Fatalf("%q makes %q", raw, in.replies)
		}
	})
}
