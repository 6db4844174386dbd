//go:build linux

package workspace_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	door "github.com/belljar/belljar/internal/api/workspace"
	"github.com/belljar/belljar/test/apitest"
)

// escapes are paths that lead out of a workspace, or are invalid. No source may get them.
func escapes() []string {
	return []string{
		"..", "../", "../x", "a/../../x", "a/..", "./..", "/", "/etc/passwd", "/workspace/../etc/passwd", "//etc/passwd", "/workspace", "..\\x",
		"a\x00b", "\x00", "\xff\xfe", strings.Repeat("a/", 2100), strings.Repeat("n", 256), "a/" + strings.Repeat("n", 300),
	}
}

// Attack: a path that leaves the workspace, in every parameter. Why it matters: outside the workspace are the files of the
// server, or of the operator. What must hold: 400 with the path, or nothing is found; nothing outside is read, written, moved or
// removed.
func traversal(t *testing.T, s source) {
	w := newWorld(t, s)
	outside := t.TempDir()
	secret := filepath.Join(outside, "passwd")
	if err := os.WriteFile(secret, []byte("secret"), 0o666); err != nil {
		t.Fatal(err)
	}
	w.sh("ln -s " + outside + " out; mkdir a; echo x > f")
	body := func(a, b, value, other string) string {
		raw, _ := json.Marshal(map[string]string{a: value, b: other})
		return string(raw)
	}
	paths := []string{"out/passwd", "out/../passwd", "a\\..\\..\\x"}
	if s.name == "sandbox" {
		paths = append(paths, escapes()...)
	}
	for n, p := range paths {
		q := url.QueryEscape(p)
		for i, try := range [][3]string{
			{"GET", "/api/tree?path=" + q, ""}, {"GET", "/api/file?path=" + q, ""}, {"GET", "/api/search?q=*&path=" + q, ""},
			{"GET", "/api/git/diff?path=" + q, ""}, {"GET", "/api/git/show?path=" + q, ""},
			{"PUT", "/api/file?path=" + q, `{"content":"broken"}`}, {"DELETE", "/api/file?path=" + q, ""},
			{"POST", "/api/file/rename", body("old_path", "new_path", p, "g")}, {"POST", "/api/file/rename", body("old_path", "new_path", "f", p)},
			{"POST", "/api/file/move", body("src_path", "dest_dir", p, "a")}, {"POST", "/api/file/move", body("src_path", "dest_dir", "f", p)},
		} {
			if i > 6 && !utf8Path(p) {
				continue // JSON cannot contain it
			}
			got := w.ask(w.key, try[0], try[1], try[2])
			if strings.Contains(got.body, "secret") || strings.Contains(got.body, "root:") || got.status >= 500 {
				t.Errorf("%s %s %s answers %d %s", try[0], try[1], try[2], got.status, got.body)
			}
			if n > 2 && utf8Path(p) && (got.status != http.StatusBadRequest || !strings.Contains(got.body, "Path traversal detected: ")) {
				t.Errorf("%s %.80s %.80s answers %d %s", try[0], try[1], try[2], got.status, got.body)
			}
		}
	}
	if raw, err := os.ReadFile(secret); err != nil || string(raw) != "secret" {
		t.Errorf("outside: %q, %v", raw, err)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
		t.Errorf("outside are %v, %v", left, err)
	}
	if got := w.ask(w.key, "GET", "/api/file?path=f", ""); got.body != `{"content":"x\n","path":"f"}` {
		t.Error(got.body)
	}
}

// utf8Path reports whether JSON can contain a path unchanged.
func utf8Path(p string) bool { return !strings.Contains(p, "\xff") }

// Attack: a repository whose configuration names programs: a monitor, a diff, a filter, hooks, a pager, a submodule with its own.
// Why it matters: opening a folder in an editor must not run its author's programs. What must hold: in a sandbox no such program
// runs outside of it, and those that can be turned off do not run at all; without a sandbox git refuses such a repository.
func hostileRepository(t *testing.T, s source) {
	w := newWorld(t, s)
	w.sh(`git init -q -b main . && git config user.name t && git config user.email t@t
echo one > a; git add a; git commit -qm first
git init -q sub && cd sub && git config user.name t && git config user.email t@t && echo s > s && git add s && git commit -qm s && cd ..
git -c protocol.file.allow=always submodule --quiet add ./sub sub 2>/dev/null || git add sub
git commit -qm sub; echo two > a; echo x > sub/s`)
	plain := w.ask(w.key, "GET", "/api/git/status", "")
	if plain.status != 200 || !strings.Contains(plain.body, `"a":"M"`) {
		t.Fatal(plain)
	}
	w.sh(`here=$(pwd); mark() { printf '#!/bin/sh\necho ran >> %s/ran-%s\nexit 1\n' "$here" "$1" > ".git/$1"; chmod +x ".git/$1"; }
mark monitor; mark ext; mark conv; mark pager; mkdir -p .git/hooks; mark hooks/post-index-change; mark hooks/pre-auto-gc
git config core.fsmonitor "$here/.git/monitor"; git config diff.external "$here/.git/ext"; git config diff.x.textconv "$here/.git/conv"; git config diff.x.command "$here/.git/ext"
git config core.pager "$here/.git/pager"; git config core.hooksPath "$here/.git/hooks"
git -C sub config core.fsmonitor "$here/.git/monitor"; echo '* diff=x' > .gitattributes`)
	for _, path := range []string{"/workspace/api/git/status", "/workspace/api/git/diff?path=a", "/workspace/api/git/show?path=a", "/api/git/diff?path=sub"} {
		w.ask(w.key, "PUT", "/api/file?path=a", `{"content":"two\n"}`) // so that the cached answer is not reused
		got := w.ask(w.key, "GET", path, "")
		if refused := got.status == http.StatusForbidden; refused != (s.name == "local") || got.status >= 500 {
			t.Errorf("%s answers %d %s", path, got.status, got.body)
		}
	}
	if ran := w.sh("ls | grep ran || true"); ran != "" {
		t.Errorf("programs of the repository ran: %s", ran)
	}
}

// Attack: the workspace is itself a repository: what is usually in .git is in the folder, with a filter. Why it matters, and what must hold:
// as for a hostile repository with .git. Nor does git before 2.32 read a configuration in the home folder.
func bareRepository(t *testing.T, s source) {
	w := newWorld(t, s)
	w.sh(`git init -q -b main . && git config user.name t && git config user.email t@t
echo one > a; echo '* filter=x' > .gitattributes; git add .; git commit -qm first; echo two > a
git config core.worktree .; git config filter.x.clean "touch $(pwd)/ran; cat"; mv .git/* .; rmdir .git`)
	got := w.ask(w.key, "GET", "/api/git/status", "")
	if s.name == "local" && got.status != http.StatusForbidden || s.name != "local" && got.body != `{"is_repo":false,"files":[]}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	got = w.ask(w.key, "GET", "/api/git/diff?path=config", "")
	if s.name == "local" && got.status != http.StatusForbidden || s.name != "local" && got.body != `{"diff":"","path":"config","error":"Not a git repository"}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	if ran := w.sh("ls | grep -x ran || true"); ran != "" {
		t.Errorf("programs of the repository ran: %s", ran)
	}
}

// Attack: a web page of another site, or of another port of this host, sends requests with the browser's stored credentials. Why
// it matters: the browser sends cookies and reaches loopback for every page. What must hold: no answer, no WebSocket, no change.
func TestCrossSite(t *testing.T) {
	s := sources()[0]
	w := newWorld(t, s, func(o *door.Options) { o.User = "local-user" })
	base := w.server.URL
	port := base[strings.LastIndex(base, ":")+1:]
	in := w.ask("alice", "POST", "/workspace/api/login", "")
	cookie := in.header.Get("Set-Cookie")
	if in.status != 200 || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") {
		t.Fatal(in)
	}
	cookie, _, _ = strings.Cut(cookie, ";")
	for range door.MaxOwn { // logins of another user end none of this user's
		w.ask("root", "POST", "/workspace/api/login", "")
	}
	for name, c := range map[string]struct {
		header []string
		ok     bool
	}{
		"cookie, same origin":          {[]string{"Cookie", cookie, "Origin", base}, true},
		"cookie, same site":            {[]string{"Cookie", cookie, "Sec-Fetch-Site", "same-origin"}, true},
		"cookie, another site":         {[]string{"Cookie", cookie, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, false},
		"cookie, another port":         {[]string{"Cookie", cookie, "Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"}, false},
		"cookie, an image":             {[]string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, false},
		"cookie, null":                 {[]string{"Cookie", cookie, "Origin", "null"}, false},
		"fallback, a program":          {nil, true},
		"fallback, localhost":          {[]string{"Host", "localhost:" + port}, true},
		"fallback, another site":       {[]string{"Origin", "https://evil.example"}, false},
		"fallback, another port":       {[]string{"Origin", "http://127.0.0.1:1"}, false},
		"fallback, an image":           {[]string{"Sec-Fetch-Site", "cross-site"}, false},
		"fallback, a name that leads":  {[]string{"Host", "rebind.example:" + port}, false},
		"fallback, its page":           {[]string{"Host", "rebind.example:" + port, "Origin", "http://rebind.example:" + port}, false},
		"fallback, through a proxy":    {[]string{"X-Forwarded-For", "127.0.0.1"}, false},
		"forged cookie, a name":        {[]string{"Cookie", "belljar_workspace=AAAA", "Host", "rebind.example"}, false},
		"wrong key with a good cookie": {[]string{"Cookie", cookie, "Origin", base, "Authorization", "Bearer wrong"}, false},
	} {
		got := w.ask("", "PUT", "/api/file?path=mark", `{"content":"x"}`, c.header...)
		if (got.status == 200) != c.ok || !c.ok && got.status != 401 {
			t.Errorf("%s answers %d %s", name, got.status, got.body)
		}
		conn, resp, err := w.dial("", "/ws/pty", c.header...)
		switch {
		case c.ok && strings.Contains(name, "same site"): // a WebSocket always has an origin
		case err != nil && (c.ok || resp == nil || resp.StatusCode != 403):
			t.Errorf("%s: WebSocket: %v", name, err)
		case err == nil:
			m, _ := w.next(conn)
			if (m["type"] == "session") != c.ok {
				t.Errorf("%s: WebSocket: %v", name, m)
			}
		}
	}
	if out := w.ask("", "POST", "/api/logout", "", "Cookie", cookie, "Origin", base); out.status != 200 {
		t.Error(out)
	}
	ended := func(cookie string) bool {
		return w.ask("", "GET", "/api/config", "", "Cookie", cookie, "Origin", base, "X-Forwarded-For", "1.2.3.4").status == 401
	}
	if !ended(cookie) {
		t.Error("a cookie outlives its logout")
	}
	var cookies []string
	for range door.MaxOwn + 1 {
		w.advance(time.Second)
		cookie, _, _ := strings.Cut(w.ask("alice", "POST", "/workspace/api/login", "").header.Get("Set-Cookie"), ";")
		cookies = append(cookies, cookie)
	}
	if !ended(cookies[0]) || ended(cookies[1]) || ended(cookies[door.MaxOwn]) {
		t.Error("a user's oldest login does not give way to the newest")
	}
}

// Mode local is for operators on this machine.
func TestLocalIsForOperators(t *testing.T) {
	w := newWorld(t, sources()[1])
	if got := w.ask("alice", "GET", "/api/tree", ""); got.status != 403 || !strings.Contains(got.body, "operators") {
		t.Error(got)
	}
	if got := w.ask("root", "GET", "/workspace/"+apitest.ID+"/api/tree", ""); got.status != 404 {
		t.Error(got)
	}
	conn, _, err := w.dial("alice", "/ws/pty")
	if err != nil {
		t.Fatal(err)
	}
	if types, code := w.ends(conn); code != 1008 || len(types) != 1 || types[0] != "error" {
		t.Error(types, code)
	}
}
