//go:build linux

package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/peer"
)

// TestGitHostile clones repositories that attack their users. A repository with a path that leads to .git, under any name that a
// file system may accept for it, is refused. Programs and fetches that others request from git do not happen.
func TestGitHostile(t *testing.T) {
	t.Parallel()
	p := peer.Start(t, "git.test", "other.test")
	dir := t.TempDir()
	s := cloning(t, t.TempDir(), dir, p)
	repository := func(name string, entries func(r *peer.Repository) []peer.Entry) map[string]any {
		r := peer.NewRepository(t, filepath.Join(dir, name+".git"))
		r.Commit("main", entries(r)...)
		return map[string]any{"url": "https://git.test/git/" + name + ".git"}
	}

	for name, path := range map[string]string{
		"dotgit": ".git", "upper": ".GIT", "short": "git~1", "hfs": ".g\u200cit", "trailing": ".git ", "stream": ".git::$INDEX_ALLOCATION", "parent": "..", "self": ".",
	} {
		git := repository(name, func(r *peer.Repository) []peer.Entry {
			return []peer.Entry{r.Folder(path, r.File("config", "[core]\n\tfsmonitor = touch owned\n"), r.Folder("hooks", r.File("post-checkout", "#!/bin/sh\n")))}
		})
		run := s.clones(git, "find . | sort; echo ran")
		if run["reason_code"] != "clone_failed" || run["stdout"] != "" {
			t.Errorf("%q: %v", path, run)
		}
	}

	const module = "0123456789abcdef0123456789abcdef01234567"
	modules := func(path, url string) func(r *peer.Repository) []peer.Entry {
		return func(r *peer.Repository) []peer.Entry {
			return []peer.Entry{
				r.File(".gitmodules", "[submodule \"m\"]\n\tpath = "+path+"\n\turl = "+url+"\n"), r.File("a.txt", "a\n"), {Mode: "160000", Kind: "commit", Hash: module, Name: "m"},
			}
		}
	}
	for name, entries := range map[string]func(r *peer.Repository) []peer.Entry{
		"file":   modules("m", "file:///etc"),
		"remote": modules("m", "https://other.test/git/app.git"),
		"ext":    modules("m", "ext::sh -c touch% owned"),
		"return": modules("\"m\\r\"", "https://git.test/git/file.git"), // a carriage return at the end of a path
	} {
		run := s.clones(repository("module-"+name, entries), "ls -A m; cat a.txt; ls owned 2>/dev/null; true")
		if out := run["stdout"]; out != "a\n" && run["reason_code"] != "clone_failed" {
			t.Errorf("submodule %s: %v", name, run)
		}
	}
	if run := s.clones(map[string]any{"url": "https://git.test/git/module-file.git"}, "ls -A m; cat a.txt"); run["stdout"] != "a\n" {
		t.Errorf("control: a repository with a submodule: %v", run)
	}

	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	run := s.clones(repository("attributes", func(r *peer.Repository) []peer.Entry {
		return []peer.Entry{
			r.File(".gitattributes", "*.txt filter=evil diff=evil merge=evil\n*.bin filter=lfs\n"),
			r.File(".gitconfig", "[filter \"evil\"]\n\tsmudge = touch owned\n"), r.File(".lfsconfig", "[lfs]\n\turl = https://other.test/\n"),
			r.File("a.txt", "a\n"), r.File("b.bin", pointer),
		}
	}), "cat a.txt b.bin; ls owned 2>/dev/null")
	if run["stdout"] != "a\n"+pointer {
		t.Errorf("filters: %v", run)
	}

	r := peer.NewRepository(t, filepath.Join(dir, "links.git"))
	r.Commit("main", r.Link("etc", "/etc"), r.Link("up", "../.."), r.Link("git", ".git"), r.Link("deep", "d/../../x"), r.Folder("d", r.Link("back", "../etc")), r.File("a.txt", "a\n"))
	links := map[string]any{"url": "https://git.test/git/links.git"}
	if run := s.clones(links, "find . -type l | sort; cat etc up"); run["stdout"] != "./d/back\n./git\n/etc../.." {
		t.Errorf("links: %v", run)
	}
	for name, patch := range map[string]string{
		"through a link": "--- /dev/null\n+++ b/etc/owned\n@@ -0,0 +1 @@\n+owned\n",
		"through a new link": "diff --git a/n b/n\nnew file mode 120000\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+/tmp\n\\ No newline at end of file\n" +
			"diff --git a/n/owned b/n/owned\nnew file mode 100644\n--- /dev/null\n+++ b/n/owned\n@@ -0,0 +1 @@\n+owned\n",
		"out":      "--- /dev/null\n+++ b/../owned\n@@ -0,0 +1 @@\n+owned\n",
		"absolute": "--- /dev/null\n+++ /tmp/owned\n@@ -0,0 +1 @@\n+owned\n",
		"git":      "--- /dev/null\n+++ b/.git/config\n@@ -0,0 +1 @@\n+owned\n",
		"short":    "--- /dev/null\n+++ b/GIT~1/hooks/x\n@@ -0,0 +1 @@\n+owned\n",
	} {
		git := map[string]any{"url": links["url"], "patch": patch}
		run := s.clones(git, "find /workspace /tmp /etc -name owned 2>/dev/null")
		if run["reason_code"] != "patch_failed" && (name != "absolute" || run["phase"] != "completed" || run["stdout"] != "/workspace/tmp/owned\n") {
			t.Errorf("patch %s: %v", name, run)
		}
	}
	if run := s.clones(map[string]any{"url": links["url"], "patch": "diff --git a/new b/new\nnew file mode 120000\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+a.txt\n\\ No newline at end of file\n"}, "readlink new"); run["stdout"] != "a.txt\n" {
		t.Errorf("a link of a patch: %v", run)
	}
	if n := p.Hosts()["other.test"]; n > 0 {
		t.Errorf("%d requests for another host", n)
	}
}

// TestGitCaps clones more than a workspace holds: bytes that were sent compressed, and files that share one object.
func TestGitCaps(t *testing.T) {
	t.Parallel()
	p := peer.Start(t, "git.test")
	dir := t.TempDir()
	s := cloning(t, t.TempDir(), dir, p)
	r := peer.NewRepository(t, filepath.Join(dir, "bomb.git"))
	r.Commit("main", r.File("zeros", strings.Repeat("\x00", 24<<20)))
	run := s.clones(map[string]any{"url": "https://git.test/git/bomb.git"}, "echo ran", "resources", map[string]any{"workspace_mb": 16})
	if run["reason_code"] != "clone_failed" || !strings.Contains(toText(run["message"]), "does not fit") || !strings.Contains(toText(run["hint"]), "workspace_mb") {
		t.Errorf("bytes: %v", run)
	}
	r = peer.NewRepository(t, filepath.Join(dir, "many.git"))
	empty := r.Blob("")
	var files, folders []peer.Entry
	for i := range 320 {
		name := string([]byte{'a' + byte(i/26/26), 'a' + byte(i/26%26), 'a' + byte(i%26)})
		files = append(files, peer.Entry{Mode: "100644", Kind: "blob", Hash: empty, Name: name})
	}
	shared := r.Folder("x", files...)
	for _, f := range files {
		folders = append(folders, peer.Entry{Mode: shared.Mode, Kind: shared.Kind, Hash: shared.Hash, Name: f.Name})
	}
	r.Commit("main", folders...)
	run = s.clones(map[string]any{"url": "https://git.test/git/many.git"}, "echo ran")
	if run["reason_code"] != "clone_failed" || !strings.Contains(toText(run["message"]), "65536 files") {
		t.Errorf("files: %v", run)
	}
}

// TestGitInSession makes sessions that begin with a repository. A run in one cannot request another.
func TestGitInSession(t *testing.T) {
	t.Parallel()
	p := peer.Start(t, "git.test")
	dir := t.TempDir()
	s := cloning(t, t.TempDir(), dir, p)
	_, second := app(t, dir)
	status, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{
		"spec_version": "1.0", "base_image": "host", "git": map[string]any{"url": gitURL, "ref": "feature/two", "patch": aChange},
	})
	source, _ := session["git"].(map[string]any)
	if status != http.StatusOK || source["commit"] != second || source["ref"] != "feature/two" || source["ignored"] != 2.0 {
		t.Fatalf("%d %v", status, session)
	}
	_, me := s.ask(http.MethodGet, api+"/me", nil)
	if used, _ := me["used"].(map[string]any); used["egress_bytes_today"] == 0.0 {
		t.Errorf("the clone is not counted: %v", used)
	}
	id := session["session_id"]
	status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{"spec_version": "1.0", "session_id": id, "command": []string{"head", "-n", "2", "a.txt"}})
	if status != http.StatusOK || run["stdout"] != "one\nTWO\n" {
		t.Errorf("%d %v", status, run)
	}
	status, answer := s.ask(http.MethodPost, api+"/runs", map[string]any{"spec_version": "1.0", "session_id": id, "command": []string{"true"}, "git": map[string]any{"url": gitURL}})
	if status != http.StatusBadRequest || !strings.Contains(toText(answer), `"field":"git"`) {
		t.Errorf("%d %v", status, answer)
	}
	if _, shown := s.ask(http.MethodGet, api+"/sessions/"+id.(string), nil); toText(shown["git"]) != toText(session["git"]) {
		t.Errorf("%v", shown)
	}
	status, answer = s.ask(http.MethodPost, api+"/sessions", map[string]any{
		"spec_version": "1.0", "base_image": "host", "git": map[string]any{"url": gitURL, "patch": strings.ReplaceAll(aChange, "three", "drei")},
	})
	if text := toText(answer); status != http.StatusBadRequest || !strings.Contains(text, `"rejected":["a.txt:1"]`) || !strings.Contains(text, `"field":"git.patch"`) {
		t.Errorf("%d %v", status, answer)
	}
}

// TestGitEnds ends clones whose server does not answer: by a cancel, and by a kill of Belljar. Nothing of their sandboxes is left.
func TestGitEnds(t *testing.T) {
	t.Parallel()
	p := peer.Start(t, "git.test")
	dir, data := t.TempDir(), t.TempDir()
	asked, gone := make(chan struct{}, 8), make(chan struct{}, 8)
	p.Handle("/slow/", func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	s := cloning(t, data, dir, p)
	begin := func(s *server) string {
		status, run := s.ask(http.MethodPost, api+"/runs", map[string]any{
			"spec_version": "1.0", "base_image": "host", "command": []string{"true"}, "git": map[string]any{"url": "https://git.test/slow/x.git"},
		})
		if status/100 != 2 {
			t.Fatalf("%d %v", status, run)
		}
		<-asked
		return run["run_id"].(string)
	}
	id := begin(s)
	if status, answer := s.ask(http.MethodPost, api+"/runs/"+id+"/cancel", nil); status/100 != 2 {
		t.Fatalf("%d %v", status, answer)
	}
	if run := s.wait(id); run["phase"] != "killed" || run["reason_code"] != "canceled_by_user" {
		t.Errorf("%v", run)
	}
	<-gone
	left := begin(s)
	s.kill()
	<-gone
	next := serve(t, data, append(cloningFlags(t, p), "--set", "drain_sec=0")...)
	if run := next.wait(left); run["reason_code"] != "node_lost" {
		t.Errorf("%v", run)
	}
	begin(next)
	next.stop()
	<-gone
	nothingLeft(t, data)
}
