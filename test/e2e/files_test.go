//go:build linux

package e2e

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar/test/tier"
)

// workspace is the workspace of a test's own session.
type workspace struct {
	*server
	id string
}

// workspace creates a session. more changes the request.
func (s *server) workspace(more map[string]any) *workspace {
	s.t.Helper()
	body := map[string]any{"spec_version": "1.0", "base_image": "host"}
	maps.Copy(body, more)
	return &workspace{s, s.made("/sessions", s.Key, "session_id", body)}
}

// fs requests an operation on files.
func (w *workspace) fs(op string, body map[string]any) (int, map[string]any) {
	w.t.Helper()
	return w.ask("POST", api+"/sessions/"+w.id+"/fs/"+op, body)
}

// must is fs for a request that must succeed.
func (w *workspace) must(op string, body map[string]any) map[string]any {
	w.t.Helper()
	status, answer := w.fs(op, body)
	if status != http.StatusOK {
		w.t.Fatalf("fs/%s %.200v: %d %v", op, body, status, answer)
	}
	return answer
}

// program runs a script in the session and returns its output.
func (w *workspace) program(script string) string {
	w.t.Helper()
	status, run := w.ask("POST", api+"/runs?wait=600s", map[string]any{
		"spec_version": "1.0", "session_id": w.id, "command": []string{"/bin/bash", "-c", script},
	})
	if status != http.StatusOK || run["exit_code"] != 0.0 {
		w.t.Fatalf("%.300s: %d %v", script, status, run)
	}
	out, _ := run["stdout"].(string)
	return out
}

// raw requests bytes.
func (w *workspace) raw(method, name, path, query, body string) (int, http.Header, string) {
	w.t.Helper()
	return w.send(method, api+"/sessions/"+w.id+"/fs/"+name+"?path="+url.QueryEscape(path)+query, w.Key, body)
}

// codeOf returns the code of an error response.
func codeOf(answer map[string]any) string {
	e, _ := answer["error"].(map[string]any)
	code, _ := e["code"].(string)
	return code
}

// decoded returns a JSON response in decoded form.
func decoded(t *testing.T, header http.Header, body string) (answer map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v in %.200q, %v", err, body, header)
	}
	return answer
}

// everything tries all operations with a path, and returns the error code of each, "" on success.
func (w *workspace) everything(path string) map[string]string {
	w.t.Helper()
	codes := map[string]string{}
	note := func(name string, answer map[string]any) {
		if codes[name] = codeOf(answer); codes[name] == "internal" { // the server's log has the reason
			w.t.Errorf("%s %.60q: %v\n%s", name, path, answer, w.output)
		}
	}
	ask := func(name, op string, body map[string]any) {
		_, answer := w.fs(op, body)
		note(name, answer)
	}
	at := func(more ...any) map[string]any {
		body := map[string]any{"path": path}
		for i := 0; i < len(more); i += 2 {
			body[more[i].(string)] = more[i+1]
		}
		return body
	}
	w.must("write", map[string]any{"path": "moving", "contents": "moving", "overwrite": true})
	ask("write", "write", at("contents", "x"))
	ask("overwrite", "write", at("contents", "x", "overwrite", true))
	ask("batch", "batch", map[string]any{"files": []any{at("contents", "x")}, "overwrite": true})
	ask("read", "read", at())
	ask("stat", "stat", at())
	ask("list", "list", at())
	ask("list all", "list", at("recursive", true))
	ask("search", "search", at("content", "x"))
	ask("rename to", "rename", map[string]any{"from": "moving", "to": path, "overwrite": true})
	ask("rename from", "rename", map[string]any{"from": path, "to": "moved", "overwrite": true})
	ask("mkdir", "mkdir", at())
	ask("delete", "delete", at())
	ask("delete all", "delete", at("recursive", true))
	for _, c := range []struct{ method, name, body string }{{"PUT", "raw", "x"}, {"GET", "raw", ""}, {"GET", "archive", ""}} {
		status, header, body := w.raw(c.method, c.name, path, "", c.body)
		codes[c.method+" "+c.name] = ""
		if status != http.StatusOK {
			note(c.method+" "+c.name, decoded(w.t, header, body))
		}
	}
	w.fs("delete", at("recursive", true))
	return codes
}

// TestFilePaths tries names that try to lead elsewhere, with every operation that takes a name.
func TestFilePaths(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), "--set", "rate_limit_per_min=0", "--set", "rate_limit_per_address=0")
	w := s.workspace(nil)
	w.program("echo untouched >/tmp/victim; mkdir /tmp/folder; echo kept >kept")
	escapes := []string{
		"..", "../", "../x", "../../etc/passwd", "a/../../etc/passwd", "./../x", "kept/..", "a/./../..", "/", "//", "/etc/passwd", "//etc/passwd",
		"/tmp/victim", "/proc/self/environ", "/proc/self/root/etc/passwd", "/dev/stdin", "/workspace/../etc/passwd", "/workspace/..",
		"/workspacefoo", "/workspacefoo/x", "/Workspace/x", "/workspace/a/../../x", "/./etc", "/../workspace/../etc", "....//../x",
	}
	invalid := []string{
		"", ".", "./", "/workspace", "/workspace/", "//workspace//.", "a\x00b", "\x00", "x/\x00/../y",
		strings.Repeat("x", 256), strings.Repeat("d/", 600) + "x", "a/" + strings.Repeat("é", 128),
	}
	names := []string{
		"..%2F..%2Fetc%2Fpasswd", "%2e%2e%2fetc", "..%252Fx", `..\..\etc\passwd`, `C:\Windows\win.ini`, "\\\\host\\share", "~", "~/.ssh/x", "~root/x", "$HOME", "${HOME}/x", "`id`",
		"$(id)", "a\nb", "a\r\nX-Evil: 1", "...", "x.", "x ", " x", "x. . .", "-rf", "--help", "*", "?", "[a]", "{a,b}", "a;b", "a|b", "'\"", "..x", "x..", "\u202etxt.exe", "ＡＢ", "..／x", "con", "nul.txt",
		".belljar-x", "./a//b/./c", "//workspace/y", "/workspace/./z", strings.Repeat("n", 255), strings.Repeat(strings.Repeat("p", 15)+"/", 62) + "q",
	}
	if len(escapes)+len(names) < 25 {
		t.Fatal("too few")
	}
	wants := func(path, code string, but ...string) {
		t.Helper()
		for name, got := range w.everything(path) {
			if got != code && !slices.Contains(but, name+" "+got) {
				t.Errorf("%.60q: %s answers %q, want %q", path, name, got, code)
			}
		}
	}
	for _, path := range escapes {
		wants(path, "path_escapes")
	}
	for _, path := range invalid {
		if strings.Trim(strings.TrimPrefix(path, "//workspace"), "./") == "" || strings.Trim(path, "/") == "workspace" {
			// These mean the workspace itself, which may be read but not changed. An empty path means it, too, if a folder is
			// expected.
			but := []string{"list ", "list all ", "search ", "GET archive "}
			if path != "" {
				but = append(but, "stat ", "read conflict", "GET raw conflict")
			}
			wants(path, "invalid_request", but...)
			continue
		}
		wants(path, "invalid_request")
	}
	for _, path := range names {
		wants(path, "", "list all ", "mkdir ", "delete all not_found", "PUT raw ", "delete ", "GET archive ")
		w.must("write", map[string]any{"path": path, "contents": "literally"})
		if got := w.must("read", map[string]any{"path": path})["contents"]; got != "literally" {
			t.Errorf("%.60q reads %v", path, got)
		}
		w.must("delete", map[string]any{"path": path})
	}
	if got := w.program("cat /tmp/victim kept; ls /tmp/folder"); got != "untouched\nkept\n" {
		t.Errorf("something outside was touched: %q", got)
	}
}

// TestFileLinks follows links that a program made.
func TestFileLinks(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), "--set", "rate_limit_per_min=0", "--set", "rate_limit_per_address=0")
	w := s.workspace(nil)
	w.program(`mkdir -p dir /tmp/out; echo inside >dir/file; echo secret >/tmp/out/file; ln -s /tmp/out out; ln -s /tmp/out/file leak; ln -s .. up
		ln -s /proc/self/root root; ln -s loop loop; ln -s b a; ln -s a b; ln -s nowhere dangling; ln -s /workspace/dir abs; ln -s dir rel; ln -s /workspace here
		ln -s dir/../../tmp/out sly; ln -s /workspace/../tmp/out slyer; ln -s rel/.. back
		p=chain0; ln -s dir chain0; for i in $(seq 60); do ln -s $p chain$i; p=chain$i; done`)
	for _, path := range []string{"abs/file", "rel/file", "here/dir/file", "here/here/rel/file", "back/dir/file", "/workspace/abs/file", "chain3/file"} {
		if got := w.must("read", map[string]any{"path": path})["contents"]; got != "inside\n" {
			t.Errorf("%s reads %v", path, got)
		}
	}
	for _, path := range []string{"out/file", "leak", "up/etc/passwd", "root/etc/passwd", "sly/file", "slyer/file", "loop", "loop/x", "a/x", "chain60/file", "here/out/file"} {
		for op, body := range map[string]map[string]any{"read": {}, "batch": nil, "write": {"contents": "evil", "overwrite": true}} {
			if op == "batch" { // it follows no links at all
				status, answer := w.fs(op, map[string]any{"overwrite": true, "files": []any{map[string]any{"path": path + "/x", "contents": "evil"}}})
				if code := codeOf(answer); status == http.StatusOK || code != "path_escapes" && code != "conflict" {
					t.Errorf("batch below %s: %d %v", path, status, answer)
				}
				continue
			}
			body["path"] = path
			if status, answer := w.fs(op, body); codeOf(answer) != "path_escapes" {
				t.Errorf("%s %s: %d %v", op, path, status, answer)
			}
		}
	}
	for op, body := range map[string]map[string]any{
		"write": {"path": "out/new", "contents": "x"}, "mkdir": {"path": "out/d"}, "delete": {"path": "out/file"}, "stat": {"path": "out/file"}, "list": {"path": "out"},
		"rename": {"from": "dir/file", "to": "out/moved"}, "search": {"path": "out", "content": "secret"},
	} {
		if status, answer := w.fs(op, body); codeOf(answer) != "path_escapes" {
			t.Errorf("%s %v: %d %v", op, body, status, answer)
		}
	}
	if _, answer := w.fs("read", map[string]any{"path": "dangling"}); codeOf(answer) != "not_found" {
		t.Errorf("a link to nothing: %v", answer)
	}
	if entry := w.must("stat", map[string]any{"path": "leak"}); entry["type"] != "symlink" || entry["target"] != "/tmp/out/file" {
		t.Errorf("%v", entry)
	}
	if got := fmt.Sprint(w.must("search", map[string]any{"content": "secret"})); strings.Contains(got, "out/file") {
		t.Errorf("a search went through a link: %v", got)
	}
	// Moving and deleting affect the link itself.
	w.must("rename", map[string]any{"from": "out", "to": "elsewhere"})
	w.must("delete", map[string]any{"path": "elsewhere", "recursive": true})
	w.must("delete", map[string]any{"path": "leak"})
	if got := w.program("cat /tmp/out/file; ls /tmp/out; cat dir/file"); got != "secret\nfile\ninside\n" {
		t.Errorf("something outside was touched: %q", got)
	}
}

// TestFileSwap writes and reads through a folder while a program repeatedly swaps it with a link out of the workspace.
func TestFileSwap(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), "--set", "rate_limit_per_min=0", "--set", "rate_limit_per_address=0")
	w := s.workspace(nil)
	w.program("mkdir -p /tmp/out d; echo secret >/tmp/out/f; ln -s /tmp/out l; echo fine >d/f")
	run := w.made("/runs", s.Key, "run_id", map[string]any{
		"spec_version": "1.0", "session_id": w.id, "timeout_sec": longTime, "command": []string{"python3", "-c", `
import ctypes, os
libc = ctypes.CDLL(None)
open('swapping', 'w').close()
while not os.path.exists('stop'):
    libc.renameat2(-100, b'd', -100, b'l', 2)
`},
	})
	until(t, "the program begins", func() bool {
		status, _ := w.fs("stat", map[string]any{"path": "swapping"})
		return status == http.StatusOK
	})
	rounds := tier.Rounds(t, 10, 100)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range rounds {
				for op, body := range map[string]map[string]any{
					"write": {"path": fmt.Sprintf("d/evil-%d-%d", g, i), "contents": "evil"}, "read": {"path": "d/f"}, "delete": {"path": "d/f"}, "mkdir": {"path": "d/m/n"},
					"list": {"path": "d"}, "search": {"path": "d", "content": "secret"}, "rename": {"from": fmt.Sprintf("d/evil-%d-%d", g, i-1), "to": "d/evil", "overwrite": true},
				} {
					status, answer := w.fs(op, body)
					if text := fmt.Sprint(answer); strings.Contains(text, "secret") {
						t.Errorf("%s shows what is outside: %v", op, answer)
					}
					if code := codeOf(answer); status != http.StatusOK && !slices.Contains([]string{"path_escapes", "not_found", "conflict"}, code) {
						t.Errorf("%s: %d %v", op, status, answer)
					}
				}
			}
		})
	}
	all.Wait()
	w.must("write", map[string]any{"path": "stop", "contents": ""})
	if status, answer := s.ask("GET", api+"/runs/"+run+"/logs?follow=true", nil); status != http.StatusOK {
		t.Errorf("%d %v", status, answer)
	}
	if got := w.program("cat /tmp/out/f; ls /tmp/out"); got != "secret\nf\n" {
		t.Errorf("something outside was touched: %q", got)
	}
}

// TestSpecialFiles accesses files that must never be opened. No request hangs.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), "--set", "rate_limit_per_min=0", "--set", "rate_limit_per_address=0")
	w := s.workspace(nil)
	w.program(`mkfifo fifo; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('socket')"; ln -s fifo link; echo text >plain; mkdir folder; echo none >shut; chmod 0 shut`)
	for _, path := range []string{"fifo", "socket", "link", "folder"} {
		for op, body := range map[string]map[string]any{"read": {"path": path}, "write": {"path": path, "contents": "x", "overwrite": true}} {
			if status, answer := w.fs(op, body); codeOf(answer) != "conflict" {
				t.Errorf("%s %s: %d %v", op, path, status, answer)
			}
		}
		if status, _, body := w.raw("GET", "raw", path, "", ""); status != http.StatusConflict {
			t.Errorf("GET %s: %d %s", path, status, body)
		}
	}
	if status, answer := w.fs("read", map[string]any{"path": "shut"}); codeOf(answer) != "conflict" {
		t.Errorf("what may not be read: %d %v", status, answer)
	}
	if found := w.must("search", map[string]any{"content": "text"}); len(found["matches"].([]any)) != 1 {
		t.Errorf("%v", found)
	}
	list := w.must("list", map[string]any{})["entries"].([]any)
	kinds := map[string]any{}
	for _, e := range list {
		kinds[e.(map[string]any)["path"].(string)] = e.(map[string]any)["type"]
	}
	if kinds["fifo"] != "other" || kinds["socket"] != "other" || kinds["link"] != "symlink" || kinds["folder"] != "dir" || kinds["plain"] != "file" {
		t.Errorf("%v", kinds)
	}
	w.must("delete", map[string]any{"path": "shut"})
	status, _, packed := w.raw("GET", "archive", "", "&format=tar", "")
	if names := tarNames(t, packed); status != http.StatusOK || !slices.Equal(names, []string{"folder/", "link", "plain"}) {
		t.Errorf("%d %q", status, names)
	}
	w.must("delete", map[string]any{"path": "fifo"})
	w.must("delete", map[string]any{"path": "socket"})
}

func tarNames(t *testing.T, packed string) (names []string) {
	t.Helper()
	r := tar.NewReader(strings.NewReader(packed))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}
