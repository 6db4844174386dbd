//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestLiveCopies holds that copies of a session with its processes go on where it was, as does a session of a live snapshot after the server
// was killed, and that what cannot be live is refused.
func TestLiveCopies(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	args := lanes()[1].open(t)
	s := serve(t, data, args...)
	post := func(s *server, path string, body map[string]any, want int) map[string]any {
		t.Helper()
		status, got := s.ask(http.MethodPost, api+path, body)
		if status != want {
			t.Fatalf("%s: %d %v", path, status, got)
		}
		return got
	}
	shell := func(s *server, id, cmd string) string {
		t.Helper()
		out, _ := post(s, "/sessions/"+id+"/shell", map[string]any{"cmd": cmd, "timeout_ms": longTime * 1000}, http.StatusOK)["output"].(string)
		return strings.ReplaceAll(out, "\r", "")
	}
	spec := map[string]any{"spec_version": "1.1", "base_image": "host"}
	id := fmt.Sprint(post(s, "/sessions", spec, http.StatusOK)["session_id"])
	shell(s, id, `mkdir w; cd w; X=hello; (i=0; while :; do i=$((i+1)); echo $i >n.new; mv n.new n; sleep 0.02; done) >/dev/null 2>&1 &
while ! [ -e n ]; do sleep 0.02; done`)
	post(s, "/sessions/"+id+"/contexts", map[string]any{"language": "bash", "name": "notes"}, http.StatusOK)
	execute := func(s *server, id, code string) string {
		t.Helper()
		out, _ := post(s, "/sessions/"+id+"/contexts/notes/execute?wait=100s", map[string]any{"code": code}, http.StatusOK)["stdout"].(string)
		return out
	}
	execute(s, id, "y=41")
	const ask = `echo $X ${PWD##*/}; a=$(cat n); while [ "$(cat n)" = "$a" ]; do sleep 0.02; done; echo counts`
	check := func(s *server, id string) {
		t.Helper()
		if got := shell(s, id, ask); got != "hello w\ncounts\n" {
			t.Errorf("%s: %q", id, got)
		}
		if got := execute(s, id, "echo $((y + 1))"); got != "42\n" {
			t.Errorf("%s: the context has %q", id, got)
		}
	}
	fork := post(s, "/sessions/"+id+"/fork", map[string]any{"live": true, "count": 2}, http.StatusOK)
	copies, _ := fork["sessions"].([]any)
	if len(copies) != 2 || fork["consistent"] != true || fork["shell"] != true {
		t.Errorf("%v", fork)
	}
	for _, c := range copies {
		x, _ := c.(map[string]any)
		check(s, fmt.Sprint(x["session_id"]))
	}
	made := post(s, "/sessions/"+id+"/snapshots", map[string]any{"live": true, "name": "alive"}, http.StatusOK)
	if made["kind"] != "live" || made["consistent"] != true || made["stored_bytes"].(float64) <= 0 {
		t.Errorf("%v", made)
	}
	check(s, id)
	snapshot := fmt.Sprint(made["snapshot_id"])

	// What cannot be is refused, in words.
	withSnapshot := func(more map[string]any) map[string]any {
		body := map[string]any{"spec_version": "1.1", "base_image": "host", "snapshot": snapshot}
		for k, v := range more {
			body[k] = v
		}
		return body
	}
	secret := map[string]any{"spec_version": "1.1", "base_image": "host", "secrets": map[string]any{"TOKEN": map[string]any{"value": "swordfish-9"}}}
	secretive := fmt.Sprint(post(s, "/sessions", secret, http.StatusOK)["session_id"])
	native := fmt.Sprint(post(s, "/sessions", map[string]any{"spec_version": "1.1", "base_image": "host", "runtime": "native"}, http.StatusOK)["session_id"])
	for _, c := range []struct {
		path string
		body map[string]any
		want int
		says string
	}{
		{"/sessions/" + secretive + "/snapshots", map[string]any{"live": true}, 409, "has secrets"},
		{"/sessions/" + secretive + "/fork", map[string]any{"live": true}, 409, "has secrets"},
		{"/sessions/" + native + "/fork", map[string]any{"live": true}, 503, "native"},
		{"/sessions/" + native + "/snapshots", map[string]any{"live": true}, 503, "native"},
		{"/sessions", withSnapshot(map[string]any{"runtime": "native"}), 503, "native cannot continue"},
		{"/sessions", withSnapshot(map[string]any{"resources": map[string]any{"workspace_mb": 77}}), 409, "not 77 MiB"},
		{"/runs", withSnapshot(map[string]any{"command": []string{"true"}}), 409, "is live"},
	} {
		status, got := s.ask(http.MethodPost, api+c.path, c.body)
		e, _ := got["error"].(map[string]any)
		if message, _ := e["message"].(string); status != c.want || !strings.Contains(message, c.says) {
			t.Errorf("%s %v: %d %v", c.path, c.body, status, got)
		}
	}
	if status, got := s.ask(http.MethodGet, api+"/snapshots/"+snapshot+"/archive", nil); status != http.StatusConflict {
		t.Errorf("export: %d %v", status, got)
	}

	s.kill()
	s = serve(t, data, args...)
	check(s, fmt.Sprint(post(s, "/sessions", withSnapshot(nil), http.StatusOK)["session_id"]))
	check(s, id)
}
