//go:build linux

package examples

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// judge makes the scripted model answer requests, each a path and a body, at the start of a play.
const judge = `import json, sys
sys.path.insert(0, ".")
import model, wire
for path, body in json.load(sys.stdin):
    play = model.Play([sys.argv[1]])
    status, answer = play.answer(wire.DIALECTS[path], body.encode())
    print(json.dumps({"status": status, "wrong": play.wrong or "", "answer": json.dumps(answer)}))`

// TestModelIsStrict sends the scripted model requests that a real one would refuse, and checks that the play fails. Otherwise
// an example with such a request would work only in the tests.
func TestModelIsStrict(t *testing.T) {
	const chat, messages = "/v1/chat/completions", "/v1/messages"
	cases := []struct{ name, path, body, says string }{
		{"fine", chat, `{"model": "m", "messages": [{"role": "user", "content": "hello"}]}`, ""},
		{"fine in the other dialect", messages, `{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}`, ""},
		{"no JSON", chat, `{`, "no JSON"},
		{"no object", chat, `[]`, "no object"},
		{"no model", chat, `{"messages": [{"role": "user", "content": "hello"}]}`, "model is missing"},
		{"no messages", chat, `{"model": "m", "messages": []}`, "messages"},
		{"no such role", chat, `{"model": "m", "messages": [{"role": "boss", "content": "hello"}]}`, "boss"},
		{"messages of another kind", chat, `{"model": "m", "messages": ["hello"]}`, "refused"},
		{"streaming", chat, `{"model": "m", "stream": true, "messages": [{"role": "user", "content": "hello"}]}`, "streaming"},
		{"a tool without a schema", messages, `{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}], "tools": [{"name": "a"}]}`, "schema of a"},
		{"a tool with a dot", chat, `{"model": "m", "messages": [{"role": "user", "content": "hello"}], "tools": [{"type": "function", "function": {"name": "sandbox.run"}}]}`, "no name"},
		{"a call without an answer", chat, `{"model": "m", "messages": [{"role": "user", "content": "hello"},
			{"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}]}]}`, "not answered"},
		{"an answer without a call", chat, `{"model": "m", "messages": [{"role": "tool", "tool_call_id": "1", "content": "hello"}]}`, "not made"},
		{"no max_tokens", messages, `{"model": "m", "messages": [{"role": "user", "content": "hello"}]}`, "max_tokens"},
		{"twice the same role", messages, `{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}, {"role": "user", "content": "hello"}]}`, "take turns"},
		{"a tool result for nothing", messages, `{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "hello"}]}]}`, "not made"},
		{"another text", chat, `{"model": "m", "messages": [{"role": "user", "content": "goodbye"}]}`, "expects 'hello'"},
	}
	play := filepath.Join(t.TempDir(), "play.json")
	if err := os.WriteFile(play, []byte(`[{"given": "hello", "text": "hello to you"}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	var requests [][2]string
	for _, c := range cases {
		requests = append(requests, [2]string{c.path, c.body})
	}
	given, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	out, err := bash(t, "../../examples/model", `python3 -c "$JUDGE" "$PLAY" <<<"$REQUESTS"`, "JUDGE="+judge, "PLAY="+play, "REQUESTS="+string(given))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	answers := json.NewDecoder(strings.NewReader(out))
	for _, c := range cases {
		var got struct {
			Status        int
			Wrong, Answer string
		}
		if err := answers.Decode(&got); err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, out)
		}
		switch {
		case c.says == "" && (got.Status != 200 || got.Wrong != "" || !strings.Contains(got.Answer, "hello to you")):
			t.Errorf("%s: %+v", c.name, got)
		case c.says != "" && (got.Status != 400 || !strings.Contains(got.Wrong, c.says)):
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	// Three requests over HTTP: a valid one, one that ends the play, and one without a key.
	for _, c := range []struct {
		body  string
		fails bool
	}{{cases[1].body, false}, {cases[2].body, true}} {
		t.Run("over HTTP, fails "+strconv.FormatBool(c.fails), func(t *testing.T) {
			t.Parallel()
			const ask = `curl -sS -H "x-api-key: $ANTHROPIC_API_KEY" -H 'anthropic-version: 2023-06-01' -d "$BODY" "$ANTHROPIC_BASE_URL/v1/messages"`
			out, err := bash(t, "../../examples/model", `python3 model.py "$PLAY" -- bash -c "$ASK"`, "PLAY="+play, "ASK="+ask, "BODY="+c.body)
			if (err != nil) != c.fails || strings.Contains(out, "hello to you") == c.fails || strings.Contains(out, "no JSON") != c.fails || strings.Contains(out, "Traceback") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	t.Run("no key", func(t *testing.T) {
		t.Parallel()
		out, err := bash(t, "../../examples/model", `python3 model.py hello.json -- sh -c 'curl -sS -d {} "$OPENAI_BASE_URL/chat/completions"'`)
		if err == nil || !strings.Contains(out, "the key is missing") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}
