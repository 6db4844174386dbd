//go:build linux

package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// workspace is that of a session of a test's own.
type workspace struct {
	*server
	id string
}

// workspace makes a session. more changes what is asked for.
func (s *server) workspace(more map[string]any) *workspace {
	s.t.Helper()
	body := map[string]any{"spec_version": "1.0", "base_image": "host"}
	for name, value := range more {
		body[name] = value
	}
	return &workspace{s, s.made("/sessions", s.Key, "session_id", body)}
}

// fs asks for an operation on files.
func (w *workspace) fs(op string, body map[string]any) (int, map[string]any) {
	w.t.Helper()
	return w.ask("POST", api+"/sessions/"+w.id+"/fs/"+op, body)
}

// must is fs that has to go well.
func (w *workspace) must(op string, body map[string]any) map[string]any {
	w.t.Helper()
	status, answer := w.fs(op, body)
	if status != http.StatusOK {
		w.t.Fatalf("fs/%s %.200v: %d %v", op, body, status, answer)
	}
	return answer
}

// program runs a script in the session and returns what it prints.
func (w *workspace) program(script string) string {
	w.t.Helper()
	status, run := w.ask("POST", api+"/runs?wait=100s", map[string]any{
		"spec_version": "1.0", "session_id": w.id, "command": []string{"/bin/bash", "-c", script},
	})
	if status != http.StatusOK || run["exit_code"] != 0.0 {
		w.t.Fatalf("%.300s: %d %v", script, status, run)
	}
	out, _ := run["stdout"].(string)
	return out
}

// raw asks for bytes.
func (w *workspace) raw(method, name, path, query, body string) (int, http.Header, string) {
	w.t.Helper()
	return w.send(method, api+"/sessions/"+w.id+"/fs/"+name+"?path="+url.QueryEscape(path)+query, w.Key, body)
}

// codeOf is the code of an answer that is an error.
func codeOf(answer map[string]any) string {
	e, _ := answer["error"].(map[string]any)
	code, _ := e["code"].(string)
	return code
}

// decoded is a JSON answer as it came.
func decoded(t *testing.T, header http.Header, body string) (answer map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v in %.200q, %v", err, body, header)
	}
	return answer
}

// everything does all that can be done with a path, and returns the code of each answer, "" where it went well.
func (w *workspace) everything(path string) map[string]string {
	w.t.Helper()
	codes := map[string]string{}
	ask := func(name, op string, body map[string]any) {
		_, answer := w.fs(op, body)
		codes[name] = codeOf(answer)
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
			codes[c.method+" "+c.name] = codeOf(decoded(w.t, header, body))
		}
	}
	w.fs("delete", at("recursive", true))
	return codes
}

// TestFilePaths tries names that want to lead somewhere else, with all that can be done with a name.
func TestFilePaths(t *testing.T) {
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
		".belljar-x", "./a//b/./c", "//workspace/y", "/workspace/./z", strings.Repeat("n", 255), strings.Repeat("p/", 500) + "q",
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
			// The workspace itself, in which one may look but not touch; no path at all is it too, where a folder is meant.
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

// TestFileLinks follows links that a program made, as far as they lead.
func TestFileLinks(t *testing.T) {
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
			if op == "batch" { // which goes through no link at all
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
	// A link is moved and deleted itself.
	w.must("rename", map[string]any{"from": "out", "to": "elsewhere"})
	w.must("delete", map[string]any{"path": "elsewhere", "recursive": true})
	w.must("delete", map[string]any{"path": "leak"})
	if got := w.program("cat /tmp/out/file; ls /tmp/out; cat dir/file"); got != "secret\nfile\ninside\n" {
		t.Errorf("something outside was touched: %q", got)
	}
}

// TestFileSwap writes and reads through a folder that a program makes a link out of the workspace and back, without end.
func TestFileSwap(t *testing.T) {
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
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 100 {
				for op, body := range map[string]map[string]any{
					"write": {"path": fmt.Sprintf("d/evil-%d-%d", g, i), "contents": "evil"}, "read": {"path": "d/f"}, "delete": {"path": "d/f"}, "mkdir": {"path": "d/m/n"},
					"list": {"path": "d"}, "search": {"path": "d", "content": "secret"}, "rename": {"from": fmt.Sprintf("d/evil-%d-%d", g, i-1), "to": "d/evil", "overwrite": true},
				} {
					status, answer := w.fs(op, body)
					if said := fmt.Sprint(answer); strings.Contains(said, "secret") {
						t.Errorf("%s told what is outside: %v", op, answer)
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

// TestSpecialFiles looks at what must never be opened. Nothing hangs.
func TestSpecialFiles(t *testing.T) {
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

// TestFullWorkspace fills a workspace with bytes, and with files.
func TestFullWorkspace(t *testing.T) {
	s := serve(t, t.TempDir(), "--set", "rate_limit_per_min=0", "--set", "rate_limit_per_address=0")
	w := s.workspace(map[string]any{"resources": map[string]any{"workspace_mb": 4}})
	w.must("write", map[string]any{"path": "kept", "contents": "before"})
	full := func(what string, status int, answer map[string]any) {
		t.Helper()
		e, _ := answer["error"].(map[string]any)
		details, _ := e["details"].(map[string]any)
		if status != http.StatusInsufficientStorage || e["code"] != "disk_full" || details["scope"] != "workspace" || e["hint"] == nil {
			t.Errorf("%s: %d %v", what, status, answer)
		}
		if got := w.must("read", map[string]any{"path": "kept"})["contents"]; got != "before" {
			t.Errorf("%s: the old file reads %v", what, got)
		}
	}
	if status, header, body := w.raw("PUT", "raw", "large", "", strings.Repeat("x", 4<<20+1)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a file that is larger than the workspace: %d %v %s", status, header, body)
	}
	if status, _, body := w.raw("PUT", "raw", "half", "", strings.Repeat("x", 3<<20)); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	status, header, body := w.raw("PUT", "raw", "kept", "&overwrite=true", strings.Repeat("x", 2<<20))
	full("PUT", status, decoded(t, header, body))
	w.program("cat /dev/zero >rest 2>/dev/null || true")
	status, answer := w.fs("write", map[string]any{"path": "kept", "contents": strings.Repeat("x", 100_000), "overwrite": true})
	full("write", status, answer)
	status, answer = w.fs("batch", map[string]any{"overwrite": true, "files": []any{
		map[string]any{"path": "kept", "contents": "after"}, map[string]any{"path": "other", "contents": strings.Repeat("x", 100_000)}}})
	full("batch", status, answer)
	space := w.space()
	if space["max_bytes"].(float64) != 4<<20 || space["bytes"].(float64) < 4<<20-100_000 {
		t.Errorf("%v", space)
	}
	w.must("delete", map[string]any{"path": "rest"})
	w.program("mkdir many; cd many; seq 70000 | xargs touch 2>/dev/null || true")
	status, answer = w.fs("write", map[string]any{"path": "one-more", "contents": "x"})
	full("one file more", status, answer)
	status, answer = w.fs("mkdir", map[string]any{"path": "folder"})
	full("one folder more", status, answer)
	list := w.must("list", map[string]any{"path": "many", "limit": 10})
	if list["truncated"] != true || len(list["entries"].([]any)) != 10 {
		t.Errorf("%v", list)
	}
	found := w.must("search", map[string]any{"name": "6999*"})
	if len(found["matches"].([]any)) > 100 {
		t.Errorf("%d matches", len(found["matches"].([]any)))
	}
	w.must("delete", map[string]any{"path": "many", "recursive": true})
	if space := w.space(); space["files"].(float64) > 10 {
		t.Errorf("after the deletion: %v", space)
	}
	w.must("write", map[string]any{"path": "kept", "contents": "after", "overwrite": true})
}

func (w *workspace) space() map[string]any {
	w.t.Helper()
	status, space := w.ask("GET", api+"/sessions/"+w.id+"/fs/space", nil)
	if status != http.StatusOK {
		w.t.Fatalf("%d %v", status, space)
	}
	return space
}

// TestHostileTrees looks into trees that were made for whoever looks: very deep, very wide, and never at rest.
func TestHostileTrees(t *testing.T) {
	s := serve(t, t.TempDir(), "--set", "rate_limit_per_min=0", "--set", "rate_limit_per_address=0")
	w := s.workspace(nil)
	w.program(`python3 - <<'EOF'
import os
os.mkdir('deep'); os.chdir('deep')
for i in range(3000):
    os.mkdir('d' * (200 if i % 100 == 0 else 1)); os.chdir('d' * (200 if i % 100 == 0 else 1))
open('bottom', 'w').write('needle')
os.chdir('/workspace')
os.mkdir('wide')
for i in range(20000):
    open('wide/f%05d' % i, 'w').write('hay\n' if i != 13579 else 'hay\nneedle\n')
with open('line', 'w') as f:
    for i in range(64): f.write('x' * (1 << 20))
    f.write('\nneedle\n')
os.mkdir('sparse')
for i in range(5): open('sparse/%d' % i, 'w').truncate(200 << 20)
EOF`)
	list := w.must("list", map[string]any{"recursive": true, "limit": 10000})
	if list["truncated"] != true || len(list["entries"].([]any)) != 10000 {
		t.Errorf("%d entries, truncated %v", len(list["entries"].([]any)), list["truncated"])
	}
	if list = w.must("list", map[string]any{"path": "deep", "recursive": true}); list["truncated"] != true || len(list["entries"].([]any)) != 255 {
		t.Errorf("%d entries of the deep one, truncated %v", len(list["entries"].([]any)), list["truncated"])
	}
	// A search of everything has five seconds, and says that it has not seen all; how much it has is up to the machine.
	begun := time.Now()
	found := w.must("search", map[string]any{"content": "needle"})
	if took := time.Since(begun); took > patience || found["truncated"] != true {
		t.Errorf("the search took %v, truncated %v", took, found["truncated"])
	}
	until(t, "a search in the wide one finds", func() bool {
		found = w.must("search", map[string]any{"path": "wide", "name": "f135*", "content": "needle"})
		return strings.Contains(fmt.Sprint(found["matches"]), "wide/f13579")
	})
	for _, path := range []string{"deep", "sparse"} {
		if n, err := w.broken(path); err == nil {
			t.Errorf("an archive of the %s one is whole, with %d bytes", path, n)
		}
	}
	if status, _, packed := w.raw("GET", "archive", "wide", "&format=zip", ""); status != http.StatusOK {
		t.Errorf("an archive of the wide one: %d", status)
	} else if z, err := zip.NewReader(strings.NewReader(packed), int64(len(packed))); err != nil || len(z.File) != 20000 {
		t.Errorf("a zip of %d bytes: %v", len(packed), err)
	}
	// The sandbox is none the worse for it.
	w.must("delete", map[string]any{"path": "deep", "recursive": true})
	w.must("delete", map[string]any{"path": "sparse", "recursive": true})
	run := w.made("/runs", s.Key, "run_id", map[string]any{
		"spec_version": "1.0", "session_id": w.id, "timeout_sec": longTime, "command": []string{"/bin/bash", "-c", `
			while [ ! -e stop ]; do mkdir -p wide/n/m 2>/dev/null; : >wide/n/m/$RANDOM; : >wide/$RANDOM; done 2>/dev/null; true`},
	})
	for range 5 {
		status, answer := w.fs("delete", map[string]any{"path": "wide", "recursive": true})
		if code := codeOf(answer); status != http.StatusOK && code != "conflict" && code != "not_found" {
			t.Errorf("delete what is written to: %d %v", status, answer)
		}
	}
	w.must("write", map[string]any{"path": "stop", "contents": ""})
	s.ask("GET", api+"/runs/"+run+"/logs?follow=true", nil)
	w.fs("delete", map[string]any{"path": "wide", "recursive": true})
	if got := w.program("ls -A"); strings.TrimSpace(got) != ".tmp\nline\nstop" && strings.TrimSpace(got) != "line\nstop" {
		t.Errorf("left: %q", got)
	}
}

// broken asks for an archive that cannot be whole: it says so, or breaks off.
func (w *workspace) broken(path string) (int64, error) {
	req, err := http.NewRequestWithContext(w.t.Context(), "GET", w.URL+api+"/sessions/"+w.id+"/fs/archive?path="+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", w.Key)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusRequestEntityTooLarge {
		return 0, errors.New("too large")
	}
	return io.Copy(io.Discard, resp.Body)
}

// TestFilesAtOnce is a hundred at once.
func TestFilesAtOnce(t *testing.T) {
	s := serve(t, t.TempDir(), "--set", "rate_limit_per_min=0", "--set", "rate_limit_per_address=0")
	w := s.workspace(nil)
	var all sync.WaitGroup
	for g := range 100 {
		all.Go(func() {
			path := fmt.Sprintf("d%d/f", g%7)
			for i := range 5 {
				text := fmt.Sprint(g, i)
				for op, body := range map[string]map[string]any{
					"write": {"path": fmt.Sprintf("%s%d", path, g), "contents": text, "overwrite": true}, "list": {"recursive": true}, "search": {"name": "f*"},
				} {
					if op == "search" && i > 0 {
						continue
					}
					if status, answer := w.fs(op, body); status != http.StatusOK && codeOf(answer) != "rate_limited" {
						t.Errorf("%s: %d %v", op, status, answer)
					}
				}
				if status, answer := w.fs("read", map[string]any{"path": fmt.Sprintf("%s%d", path, g)}); status != http.StatusOK || answer["contents"] != text {
					t.Errorf("read: %d %v", status, answer)
				}
			}
		})
	}
	all.Wait()
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	for i := range 4 {
		all.Go(func() {
			name := fmt.Sprint("big", i)
			if status, _, body := w.raw("PUT", "raw", name, "", string(big)); status != http.StatusOK {
				t.Errorf("%d %s", status, body)
			}
			if status, _, body := w.raw("GET", "raw", name, "", ""); status != http.StatusOK || body != string(big) {
				t.Errorf("%d, %d bytes", status, len(body))
			}
		})
	}
	all.Wait()
}
