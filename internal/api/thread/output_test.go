//go:build linux

package thread_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/api/thread"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/apitest"
)

// A response has all output that the log has: long streams are not cut in the middle.
func TestLongOutput(t *testing.T) {
	w := newWorld(t, nil)
	id := w.open("a")
	var lines strings.Builder
	for n := 1; n <= 20_000; n++ {
		fmt.Fprintf(&lines, "%100d é\n", n)
	}
	got := w.run(id, `printf '%100d é\n' {1..20000}; printf 'a\xff\xe2\x82' >&2; exit 3`)
	got.want(t, http.StatusOK, map[string]any{"exit_code": 3, "stderr": "a\uFFFD\uFFFD", "reason_code": "nonzero_exit", "stdout_truncated": nil})
	if text := got.body["stdout"]; text != lines.String() || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d bytes of stdout, want %d", len(fmt.Sprint(text)), lines.Len())
	}
	got = w.post("execute", `{"session_id": "`+id+`", "command": "printf '%100d é\\n' {1..20000} >&2; printf x >&2; sleep 300", "timeout": 3}`)
	got.want(t, http.StatusOK, map[string]any{"exit_code": 124, "stdout": "", "timed_out": true, "stderr_truncated": nil})
	if text := got.body["stderr"].(string); !strings.HasPrefix(text, lines.String()+"x\nsandbox: ") {
		t.Errorf("%d bytes of stderr, want %d and more, with %q at the end", len(text), lines.Len(), text[max(len(text)-100, 0):])
	}
}

// The log's cap bounds a response.
func TestCappedOutput(t *testing.T) {
	const most = 1<<20 + 3000 // one byte into a character
	in := apitest.NewWorld(t, nil, func(o *service.Options) { o.Limits.LogBytes = most })
	w := newWorld(t, func(o *thread.Options) { o.Engine = in.Service })
	got := w.run(w.open("a"), `printf '€%.0s' {1..400000}`)
	got.want(t, http.StatusOK, map[string]any{
		"exit_code": 0, "stdout": strings.Repeat("€", most/3), "stderr": "", "stdout_truncated": true, "stderr_truncated": true,
	})
}

// Invalid bytes become U+FFFD as Python decodes them with errors="replace".
func TestInvalidOutput(t *testing.T) {
	w := newWorld(t, nil)
	id := w.open("a")
	for printed, want := range map[string]string{
		`\xff\xff`: "\uFFFD\uFFFD", `a\x80\x81b`: "a\uFFFD\uFFFDb", `\xe2\x82z`: "\uFFFDz", `\xf0\x9f\x98`: "\uFFFD", `\xed\xa0\x80`: "\uFFFD\uFFFD\uFFFD",
		`\xe2\xe2\x82\xac`: "\uFFFD€", `\xef\xbf\xbd\xff`: "\uFFFD\uFFFD", `\xc0\xaf`: "\uFFFD\uFFFD",
	} {
		w.run(id, "printf '"+printed+"'").want(t, http.StatusOK, map[string]any{"stdout": want})
	}
}
