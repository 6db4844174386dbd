//go:build linux

package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModelIsStrict sends the scripted model what a real one would refuse, and checks that the play goes wrong: an example that
// did so would work in the tests only.
func TestModelIsStrict(t *testing.T) {
	const chat, messages = "/v1/chat/completions", "/v1/messages"
	for _, c := range []struct{ name, path, body, says string }{
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
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			play := filepath.Join(dir, "play.json")
			if err := os.WriteFile(play, []byte(`[{"given": "hello", "text": "hello to you"}]`), 0o644); err != nil {
				t.Fatal(err)
			}
			const ask = `curl -sS -H "Authorization: Bearer $OPENAI_API_KEY" -H "x-api-key: $ANTHROPIC_API_KEY" -H 'anthropic-version: 2023-06-01' -d "$BODY" "$ANTHROPIC_BASE_URL$WHERE"`
			out, err := bash(t, "../../examples/model", `python3 model.py "$PLAY" -- bash -c "$ASK"`, "PLAY="+play, "ASK="+ask, "BODY="+c.body, "WHERE="+c.path)
			switch {
			case c.says == "" && (err != nil || !strings.Contains(out, "hello to you")):
				t.Errorf("%v\n%s", err, out)
			case c.says != "" && (err == nil || !strings.Contains(out, c.says) || strings.Contains(out, "Traceback")):
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
