package belljar_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func TestContextRuns(t *testing.T) {
	good := belljar.RunSpec{SpecVersion: "1.1", SessionID: "s", Context: "data-1", Code: "x"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*belljar.RunSpec){
		"context":  func(s *belljar.RunSpec) { s.Context = "../x" },
		"code":     func(s *belljar.RunSpec) { s.Code = " \n" },
		"command":  func(s *belljar.RunSpec) { s.Command = []string{"true"} },
		"cwd":      func(s *belljar.RunSpec) { s.Cwd = "src" },
		"env":      func(s *belljar.RunSpec) { s.Env = map[string]string{"A": "b"} },
		"shell":    func(s *belljar.RunSpec) { s.Shell = &belljar.ShellCommand{Cmd: "true"} },
		"language": func(s *belljar.RunSpec) { s.Language = "ruby" },
		"replay": func(s *belljar.RunSpec) {
			s.Context, s.Replay, s.Code, s.Command = "", true, "", []string{"true"}
		},
		"cpu_time_sec": func(s *belljar.RunSpec) { s.CPUTimeSec = 1 },
	} {
		spec := good
		change(&spec)
		if err := spec.Validate(); belljar.CodeOf(err) != belljar.CodeInvalidRequest || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, name := range []string{"py", "ipython", "JS", "node", "bash", "sh"} {
		if err := (belljar.ContextSpec{Language: name}).Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []belljar.ContextSpec{{}, {Language: "go"}, {Language: "py", Name: strings.Repeat("x", 41)}, {Language: "py", Cwd: "/etc"}} {
		if err := bad.Validate(); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// A replay restores the variables of a hibernated session.
func TestLostVariables(t *testing.T) {
	for _, c := range []struct {
		context *belljar.ContextRun
		want    bool
	}{
		{nil, false},
		{&belljar.ContextRun{State: belljar.ShellKept, Replayed: 2}, false},
		{&belljar.ContextRun{State: belljar.ContextNew}, true},
		{&belljar.ContextRun{State: belljar.ContextNew, Replayed: 2}, false},
		{&belljar.ContextRun{State: belljar.ShellReplaced, Replayed: 2}, true},
	} {
		if got := c.context.Lost(); got != c.want {
			t.Errorf("%+v: %v", c.context, got)
		}
	}
}

// Results are assembled from pieces; other lines are skipped.
func TestResults(t *testing.T) {
	text := `{"type":"value","data":{"text/plain":"é"},"count":3}` + "\n" + "{no json\n" + `{"type":"value"}` + "\n" + `{"type":"other","data":{}}` + "\n" +
		`{"type":"error","name":"E","frames":[{"file":"f","line":2}]}` + "\n" + `{"type":"value","data":{"text/plain":"unfinished"`
	for _, size := range []int{1, 7, len(text)} {
		var r belljar.ResultReader
		var list []belljar.Result
		list = append(list, r.Add(belljar.Frame{Type: belljar.FrameStdout, Output: []byte(text)})...)
		for b := []byte(text); len(b) > 0; b = b[min(size, len(b)):] {
			list = append(list, r.Add(belljar.Frame{Type: belljar.FrameResult, Output: b[:min(size, len(b))]})...)
		}
		if len(list) != 2 || list[0].Data["text/plain"] != "é" || list[0].Count != 3 || list[1].Name != "E" || list[1].Frames[0].Line != 2 {
			t.Errorf("in pieces of %d: %+v", size, list)
		}
	}
}

// HTML stays as it is unless the answer's encoder escapes it: results are often HTML.
func TestResultsOfHTML(t *testing.T) {
	for _, r := range []belljar.Result{
		{Type: belljar.ResultValue, Data: map[string]any{"text/html": "<b>&</b>", "application/json": json.RawMessage(`"<"`)}}, {Type: belljar.ResultError, Name: "<E>"},
	} {
		var b bytes.Buffer
		plain := json.NewEncoder(&b)
		plain.SetEscapeHTML(false)
		escaped, err := json.Marshal(r)
		if err = errors.Join(err, plain.Encode(r)); err != nil || strings.Contains(b.String(), `\u003c`) || strings.ContainsAny(string(escaped), "<>") {
			t.Errorf("%s, %s, %v", b.String(), escaped, err)
		}
	}
}

// Numbers keep all their digits.
func TestResultNumbers(t *testing.T) {
	const text = `{"type":"value","data":{"application/json":[9007199254740993,12345678901234567890,0.1]},"count":1}`
	var r belljar.ResultReader
	list := r.Add(belljar.Frame{Type: belljar.FrameResult, Output: []byte(text + "\n")})
	if got, err := json.Marshal(list); err != nil || string(got) != "["+text+"]" {
		t.Errorf("%s, %v", got, err)
	}
}

// What a program shows takes up about as much memory as it has in the log, however it is nested and however much of it there is.
func TestResultsOfAHostileProgram(t *testing.T) {
	frame := func(text string) belljar.Frame { return belljar.Frame{Type: belljar.FrameResult, Output: []byte(text)} }
	var r belljar.ResultReader
	list := r.Add(frame(`{"type":"value","data":{"application/json":[[],[]],"text/plain":"x"}}` + "\n" +
		`{"type":"error","frames":[` + strings.Repeat(`{},`, 1000) + `{}]}` + "\n"))
	if raw, _ := list[0].Data["application/json"].(json.RawMessage); string(raw) != "[[],[]]" || list[0].Data["text/plain"] != "x" {
		t.Errorf("the value is %#v", list[0].Data)
	}
	if n := len(list[1].Frames); n != 100 {
		t.Errorf("%d frames", n)
	}
	var all []belljar.Result
	for range 3 {
		all = append(all, r.Add(frame(strings.Repeat(`{"type":"input"}`+"\n", 5000)))...)
	}
	if n := len(all) - 1; n != 9_998 || all[n-1].Type != belljar.ResultInput || all[n].Type != belljar.ResultCut {
		t.Errorf("%d results, the last is %+v", n, all[n])
	}
}

// Clients in other languages read only so many levels. A bracket in a text is none.
func TestDeepResults(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`[{"a\\\"[":`, n/2) + `"[[\""` + strings.Repeat("}]", n/2) }
	for levels, kept := range map[int]bool{100: true, 102: false, 5000: false} {
		var r belljar.ResultReader
		text := `{"type":"value","data":{"application/json":` + nested(levels) + `,"text/plain":"x","text/html":"` + strings.Repeat("[", 200) + `"}}` + "\n"
		list := r.Add(belljar.Frame{Type: belljar.FrameResult, Output: []byte(text)})
		if len(list) != 1 || list[0].Data["text/plain"] != "x" || list[0].Data["text/html"] == nil || (list[0].Data["application/json"] != nil) != kept {
			t.Errorf("%d levels: %d results, or their data is wrong", levels, len(list))
		}
	}
}

// Clients read an error's fields without asking whether they are there.
func TestResultErrorIsWhole(t *testing.T) {
	got, err := json.Marshal([]belljar.Result{{Type: belljar.ResultError, Name: "KeyboardInterrupt", Traceback: "t"}, {Type: belljar.ResultCut, Text: "full"}})
	want := `[{"type":"error","traceback":"t","name":"KeyboardInterrupt","value":"","frames":[]},{"type":"cut","text":"full"}]`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}
