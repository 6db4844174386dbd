//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLiveCopies checks that live copies of a session continue where it was, as do a session from a live snapshot and hibernated sessions,
// also after the server was killed. Requests that cannot be live are refused.
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
	// It counts, and waits by reading a FIFO that stays empty: a process for each step would cost more than all the rest.
	shell(s, id, `mkdir w; cd w; X=hello; mkfifo /tmp/never; exec 9<>/tmp/never; (while :; do echo $((++i)) >n; read -t .05 -u 9; done) >/dev/null 2>&1 &
while ! [ -s n ]; do read -t .05 -u 9; done`)
	post(s, "/sessions/"+id+"/contexts", map[string]any{"language": "bash", "name": "notes"}, http.StatusOK)
	execute := func(s *server, id, code string) string {
		t.Helper()
		out, _ := post(s, "/sessions/"+id+"/contexts/notes/execute?wait=600s", map[string]any{"code": code}, http.StatusOK)["stdout"].(string)
		return out
	}
	execute(s, id, "y=41")
	const ask = `echo $X ${PWD##*/}; a=; while [ -z "$a" ]; do read a <n; done; b=$a; while [ "$b" = "$a" ]; do read -t .05 -u 9; read b <n; done; echo counts`
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
	ids := make([]string, 2)
	for i, c := range copies {
		x, _ := c.(map[string]any)
		ids[i] = fmt.Sprint(x["session_id"])
		check(s, ids[i])
	}

	// One hibernates with the counter, by force, and wakes. The other one has an idle interpreter, which needs no force.
	hibernate := func(s *server, id string, force bool) {
		t.Helper()
		got := post(s, "/sessions/"+id+"/hibernate", map[string]any{"force": force}, http.StatusOK)
		if how, _ := got["hibernated"].(map[string]any); got["state"] != "hibernated" || how["live"] != true {
			t.Errorf("%v", got)
		}
	}
	python := func(s *server, code, state string) {
		t.Helper()
		got := post(s, "/sessions/"+ids[1]+"/contexts/data/execute?wait=600s", map[string]any{"code": code, "language": "python"}, http.StatusOK)
		if of, _ := got["context"].(map[string]any); got["stdout"] != "42\n" || state != "" && of["state"] != state {
			t.Errorf("%s: %v", code, got)
		}
	}
	hibernate(s, ids[0], true)
	check(s, ids[0])
	shell(s, ids[1], "kill %1; wait; echo temporary >/tmp/file; alias greet='echo hi'")
	python(s, "x = 41; print(x + 1)", "")
	hibernate(s, ids[1], false)
	made := post(s, "/sessions/"+id+"/snapshots", map[string]any{"live": true, "name": "alive"}, http.StatusOK)
	if made["kind"] != "live" || made["consistent"] != true || made["stored_bytes"].(float64) <= 0 {
		t.Errorf("%v", made)
	}
	check(s, id)
	snapshot := fmt.Sprint(made["snapshot_id"])

	// Impossible requests are refused with a message.
	withSnapshot := func(more map[string]any) map[string]any {
		body := map[string]any{"spec_version": "1.1", "base_image": "host", "snapshot": snapshot}
		maps.Copy(body, more)
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
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		if status, got := s.ask(method, api+"/snapshots/"+snapshot+"/archive", nil); status != http.StatusConflict {
			t.Errorf("export, %s: %d %v", method, status, got)
		}
	}

	s.kill()
	s = serve(t, data, args...)
	check(s, fmt.Sprint(post(s, "/sessions", withSnapshot(nil), http.StatusOK)["session_id"]))
	check(s, id)

	s.stateOf(ids[1], "hibernated")
	python(s, "print(x + 1)", "kept")
	if got := shell(s, ids[1], "cat /tmp/file; greet; echo $X ${PWD##*/}"); got != "temporary\nhi\nhello w\n" {
		t.Errorf("%q", got)
	}
	// The saved processes are damaged: the files and the shell remain, and the context reports that it is new.
	hibernate(s, ids[1], false)
	states, err := filepath.Glob(filepath.Join(data, "snapshots", "*", "state", "*"))
	if err != nil || len(states) == 0 {
		t.Fatalf("%v, %v", states, err)
	}
	for _, name := range states {
		if err := os.Truncate(name, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := shell(s, ids[1], "[ -e n ]; echo $? $X ${PWD##*/}"); got != "0 hello w\n" {
		t.Errorf("%q", got)
	}
	if got := s.stateOf(ids[1], "active")["hibernated"]; !strings.Contains(fmt.Sprint(got), "live:false") {
		t.Errorf("%v", got)
	}
	python(s, "print(x if 'x' in vars() else 42)", "new")
}
