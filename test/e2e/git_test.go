//go:build linux

package e2e

import (
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/peer"
)

// cloning starts a server whose sandboxes may reach a peer with repositories, which are in dir.
func cloning(t *testing.T, data, dir string, p *peer.Peer, args ...string) *server {
	t.Helper()
	p.ServeGit(t, dir)
	return serve(t, data, append(cloningFlags(t, p), args...)...)
}

func cloningFlags(t *testing.T, p *peer.Peer) []string {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, p.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{
		"--set", "egress_allow=git.test,other.test,wrong.test,gone.test," + p.Address, "--set", "egress_private=true",
		"--set", "egress_resolver=" + p.Resolver, "--set", "egress_ca_file=" + ca,
	}
}

// clones runs a command over a repository, to its end.
func (s *server) clones(git map[string]any, line string, more ...any) map[string]any {
	s.t.Helper()
	body := map[string]any{"spec_version": "1.0", "base_image": "host", "command": []string{"sh", "-c", line}, "git": git}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", body)
	if status != http.StatusOK {
		s.t.Fatalf("%d %v", status, run)
	}
	return run
}

const (
	gitURL  = "https://git.test/git/app.git"
	aText   = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"
	aChange = `diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
`
)

// app makes a repository with two commits and returns their hashes.
func app(t *testing.T, dir string) (first, second string) {
	r := peer.NewRepository(t, filepath.Join(dir, "app.git"))
	src := r.Folder("src", r.File("b.txt", "b\n"), r.Link("link", "../a.txt"), r.Link("out", "/etc/passwd"))
	first = r.Commit("main", r.File("a.txt", "old\n"), src)
	r.Git("", "update-ref", "refs/tags/v1", first)
	second = r.Commit("main", r.File(".dockerignore", "# not these\n**/*.log\n!keep.log\nbuild\n"), r.File("a.txt", aText),
		r.Folder("build", r.File("x", "x")), r.File("keep.log", "k\n"), r.File("noise.log", "n\n"), r.File("run.sh", "#!/bin/sh\n"), src)
	r.Git("", "update-ref", "refs/heads/feature/two", second)
	return first, second
}

// TestGit clones a repository in each way that a request allows. The run itself has no network.
func TestGit(t *testing.T) {
	t.Parallel()
	p := peer.Start(t, "git.test", "other.test")
	dir := t.TempDir()
	s := cloning(t, t.TempDir(), dir, p)
	first, second := app(t, dir)
	for name, tt := range map[string]struct {
		git    map[string]any
		line   string
		commit string
		stdout string
	}{
		"files": {nil, "find . -type f -o -type l | sort; cat src/link; getent hosts git.test || echo offline", second,
			"./.dockerignore\n./a.txt\n./keep.log\n./run.sh\n./src/b.txt\n./src/link\n./src/out\n" + aText + "offline\n"},
		"a link that leads out": {nil, "readlink src/link; cat src/out", second, "../a.txt\n/etc/passwd"},
		"ignored kept":          {map[string]any{"keep_ignored": true}, "ls build noise.log", second, "noise.log\n\nbuild:\nx\n"},
		"tag":                   {map[string]any{"ref": "v1"}, "cat a.txt", first, "old\n"},
		"branch":                {map[string]any{"ref": "feature/two"}, "head -n 1 a.txt", second, "one\n"},
		"whole ref":             {map[string]any{"ref": "refs/tags/v1"}, "cat a.txt", first, "old\n"},
		"commit":                {map[string]any{"ref": first}, "cat a.txt", first, "old\n"},
		"subdir":                {map[string]any{"subdir": "src"}, "ls; cat b.txt", second, "b.txt\nlink\nout\nb\n"},
		"patch":                 {map[string]any{"patch": aChange}, "head -n 2 a.txt; cat a.txt | wc -l", second, "one\nTWO\n8\n"},
		"patch that moved":      {map[string]any{"patch": strings.Replace(aChange, "@@ -1,3 +1,3 @@", "@@ -4,3 +4,3 @@", 1)}, "sed -n 2p a.txt", second, "TWO\n"},
		"patch with a new file": {map[string]any{"patch": "--- /dev/null\n+++ b/new/n.txt\n@@ -0,0 +1 @@\n+new"}, "cat new/n.txt", second, "new\n"},
		"history": {map[string]any{"keep_git": true, "depth": 2, "keep_ignored": true, "patch": aChange},
			"git -C /workspace -c safe.directory=* log --format=%H; git -c safe.directory=* config remote.origin.url; ls .git/hooks 2>&1 | head -n 1; git -c safe.directory=* status --porcelain",
			second, second + "\n" + first + "\n" + gitURL + "\nls: cannot access '.git/hooks': No such file or directory\nM  a.txt\n T src/out\n"},
		"history, files left out": {map[string]any{"keep_git": true}, "ls; git -c safe.directory=* status --porcelain", second, "a.txt\nkeep.log\nrun.sh\nsrc\n T src/out\n"},
	} {
		t.Run(name, func(t *testing.T) {
			git := map[string]any{"url": gitURL}
			maps.Copy(git, tt.git)
			run := s.clones(git, tt.line)
			source, _ := run["git"].(map[string]any)
			if run["stdout"] != tt.stdout || source["commit"] != tt.commit || source["url"] != gitURL {
				t.Errorf("%v\nstdout:\n%v\nwant:\n%s\n%v", source, run["stdout"], tt.stdout, run)
			}
		})
	}

	run := s.clones(map[string]any{"url": gitURL}, "cat a.txt; ls -a", "files", []map[string]any{{"path": "a.txt", "content_b64": "bWluZQo="}})
	if out, _ := run["stdout"].(string); !strings.HasPrefix(out, "mine\n.\n") {
		t.Errorf("files go over those of the repository: %v", run)
	}
	source := run["git"].(map[string]any)
	warnings := toText(run["warnings"])
	if report := egressOf(t, run); report["allowed"] != 1.0 || report["denied"] != 0.0 || source["ignored"] != 2.0 ||
		!strings.Contains(warnings, "2 files were left out") || !strings.Contains(warnings, "1 symbolic link leads out") {
		t.Errorf("%v, %v, %v", report, source, warnings)
	}
	log, err := s.get(api + "/runs/" + run["run_id"].(string) + "/logs?format=json")
	for _, part := range []string{`"state":"cloning"`, `"state":"cloned"`, `"commit":"` + second, `"event":"egress"`} {
		if err != nil || !strings.Contains(log, part) {
			t.Errorf("no %s: %v\n%s", part, err, log)
		}
	}
	status, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.1", "base_image": "host", "git": map[string]any{"url": gitURL}})
	if toText(session["warnings"]) != warnings {
		t.Errorf("a session: %d, %v", status, session)
	}
	if n := p.Hosts()["git.test"]; n < 10 {
		t.Errorf("control: %d requests", n)
	}
}

// TestGitFails requests repositories and revisions that are unavailable: each has one clear error, in a
// failed run or in the response.
func TestGitFails(t *testing.T) {
	t.Parallel()
	p := peer.Start(t, "git.test", "other.test")
	dir := t.TempDir()
	s := cloning(t, t.TempDir(), dir, p)
	app(t, dir)
	peer.NewRepository(t, filepath.Join(dir, "empty.git"))
	p.Lie("wrong.test", netip.MustParseAddr(p.Address))
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, rest, _ := strings.Cut(r.URL.Path, ".git")
			http.Redirect(w, r, to+rest+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
		}
	}
	p.Handle("/away/", redirect("https://other.test/git/app.git"))
	p.Handle("/plain/", redirect("http://git.test/git/app.git"))
	p.Handle("/moved/", redirect(gitURL))
	p.Handle("/private/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	run := s.clones(map[string]any{"url": "https://git.test/moved/app.git"}, "head -n 1 a.txt")
	if run["stdout"] != "one\n" {
		t.Errorf("a redirect within the host: %v", run)
	}
	for name, tt := range map[string]struct {
		git    map[string]any
		reason string
		parts  []string
	}{
		"no repository":     {map[string]any{"url": "https://git.test/git/none.git"}, "clone_failed", []string{"not found, or is not public"}},
		"a password":        {map[string]any{"url": "https://git.test/private/x.git"}, "clone_failed", []string{"not found, or is not public", "git.secret"}},
		"no ref":            {map[string]any{"ref": "nothing"}, "clone_failed", []string{"no branch or tag nothing", "whole hash"}},
		"empty":             {map[string]any{"url": "https://git.test/git/empty.git"}, "clone_failed", []string{"no branch or tag HEAD: it is empty"}},
		"no commit":         {map[string]any{"ref": strings.Repeat("ab", 20)}, "clone_failed", []string{"does not give the commit abab"}},
		"no folder":         {map[string]any{"subdir": "lib"}, "clone_failed", []string{"no folder", "lib"}},
		"a file":            {map[string]any{"subdir": "a.txt"}, "clone_failed", []string{"no folder", "a.txt"}},
		"a link as folder":  {map[string]any{"subdir": "src/out"}, "clone_failed", []string{"no folder", "src/out"}},
		"another host":      {map[string]any{"url": "https://git.test/away/app.git"}, "clone_failed", []string{"sends clients to other.test"}},
		"without TLS":       {map[string]any{"url": "https://git.test/plain/app.git"}, "clone_failed", []string{"http"}},
		"wrong certificate": {map[string]any{"url": "https://wrong.test/git/app.git"}, "clone_failed", []string{"certificate", "SANDBOX_EGRESS_CA_FILE"}},
		"no address":        {map[string]any{"url": "https://gone.test/git/app.git"}, "clone_failed", []string{"has no address"}},
		"not a repository":  {map[string]any{"url": "https://git.test/"}, "clone_failed", []string{"cannot be cloned"}},
		"no such lines":     {map[string]any{"patch": strings.ReplaceAll(aChange, "three", "drei")}, "patch_failed", []string{"rejected at a.txt:1"}},
		"no such file":      {map[string]any{"patch": strings.ReplaceAll(aChange, "a.txt", "z.txt")}, "patch_failed", []string{"z.txt"}},
		"cut off":           {map[string]any{"patch": aChange[:len(aChange)-8]}, "patch_failed", []string{"corrupt patch at"}},
		"two hunks": {map[string]any{"patch": aChange + "@@ -6,3 +6,3 @@\n six\n-sieben\n+SEVEN\n eight\n" + strings.ReplaceAll(strings.ReplaceAll(aChange, "a.txt", "run.sh"), "one", "eins")},
			"patch_failed", []string{"a.txt:6", "run.sh:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			git := map[string]any{"url": gitURL}
			maps.Copy(git, tt.git)
			run := s.clones(git, "echo ran")
			output := toText(run["message"]) + toText(run["hint"])
			if run["phase"] != "failed" || run["reason_code"] != tt.reason || run["stdout"] != "" || run["exit_code"] != nil {
				t.Errorf("%v", run)
			}
			for _, part := range tt.parts {
				if !strings.Contains(output, part) {
					t.Errorf("%s\nhas no %q", output, part)
				}
			}
		})
	}
	if n := p.Hosts()["other.test"]; n > 0 {
		t.Errorf("%d requests for another host", n)
	}

	for name, tt := range map[string]struct {
		git    map[string]any
		status int
		field  string
	}{
		"a host that is not allowed": {map[string]any{"url": "https://evil.test/a.git"}, http.StatusForbidden, "git.url"},
		"a port":                     {map[string]any{"url": "https://git.test:8443/a.git"}, http.StatusForbidden, "git.url"},
		"ssh":                        {map[string]any{"url": "git@git.test:a.git"}, http.StatusBadRequest, "git.url"},
		"an option as ref":           {map[string]any{"ref": "--upload-pack=id"}, http.StatusBadRequest, "git.ref"},
		"a way out":                  {map[string]any{"subdir": "../x"}, http.StatusBadRequest, "git.subdir"},
	} {
		git := map[string]any{"url": gitURL}
		maps.Copy(git, tt.git)
		for _, path := range []string{"/runs", "/sessions"} {
			body := map[string]any{"spec_version": "1.0", "base_image": "host", "git": git}
			if path == "/runs" {
				body["command"] = []string{"true"}
			}
			status, answer := s.ask(http.MethodPost, api+path, body)
			if status != tt.status || !strings.Contains(toText(answer), `"field":"`+tt.field+`"`) {
				t.Errorf("%s %s: %d %v", path, name, status, answer)
			}
		}
	}
}
