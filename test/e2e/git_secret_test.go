//go:build linux

package e2e

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/peer"
)

const gitToken = "g1t+t0ken/0123456789"

// private starts a peer whose repositories need gitToken: below /private/ in the form of most servers, and below /mine/ with the
// user me. Below /echo/ and /split/ it sends the request's header back. The server starts with more arguments.
func private(t *testing.T, data string) (p *peer.Peer, commit string, start func(args ...string) *server) {
	t.Helper()
	p = peer.Start(t, "git.test", "other.test")
	dir := t.TempDir()
	git := p.ServeGit(t, dir)
	_, commit = app(t, dir)
	for path, want := range map[string]string{"/private/": "x-access-token", "/mine/": "me"} {
		p.Handle(path, func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != want || password != gitToken {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			r.URL.Path = "/git/" + strings.TrimPrefix(r.URL.Path, path)
			git.ServeHTTP(w, r)
		})
	}
	says := func(text func(basic, token string) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, token, _ := r.BasicAuth()
			line := "ERR " + text(r.Header.Get("Authorization"), token)
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			fmt.Fprintf(w, "001e# service=git-upload-pack\n0000%04x%s", len(line)+4, line)
		}
	}
	p.Handle("/echo/", says(func(basic, token string) string { return "got " + basic + " and " + token + "." }))
	p.Handle("/split/", says(func(_, token string) string { return "got " + strings.Join(strings.Split(token, ""), "\u2028") + "." }))
	p.Handle("/away/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://other.test/private/app.git/info/refs?"+r.URL.RawQuery, http.StatusFound)
	})
	p.Lie("wrong.test", netip.MustParseAddr(p.Address))
	flags := cloningFlags(t, p)
	return p, commit, func(args ...string) *server { return serve(t, data, append(args, flags...)...) }
}

// mentions reports the files of a folder that contain the token, in any of these forms.
func mentions(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			hidden(t, path, string(text))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func hidden(t *testing.T, what, text string) {
	t.Helper()
	for _, form := range []string{gitToken, base64.StdEncoding.EncodeToString([]byte("x-access-token:" + gitToken))} {
		if strings.Contains(text, form) {
			t.Errorf("%s has the token", what)
		}
	}
}

// TestGitSecret clones private repositories. Only the server gets the token.
func TestGitSecret(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p, commit, start := private(t, data)
	s := start()
	const url = "https://git.test/private/app.git"
	if status, answer := s.ask(http.MethodPut, api+"/secrets/STORED", map[string]any{"value": gitToken}); status/100 != 2 {
		t.Fatalf("%d %v", status, answer)
	}
	run := func(url string, token map[string]any, line string, more ...any) map[string]any {
		t.Helper()
		got := s.clones(map[string]any{"url": url, "secret": "TOKEN"}, line, append(more, "secrets", map[string]any{"TOKEN": token})...)
		hidden(t, "the result", toText(got))
		log, err := s.get(api + "/runs/" + got["run_id"].(string) + "/logs?format=json")
		if err != nil {
			t.Error(err)
		}
		hidden(t, "the log", log)
		return got
	}
	const look = "head -n 1 a.txt; ls /run/secrets 2>/dev/null; getent hosts git.test || echo offline"
	for name, tt := range map[string]struct {
		url    string
		token  map[string]any
		stdout string
	}{
		"value":         {url, map[string]any{"value": gitToken + "\n"}, "one\nTOKEN\noffline\n"},
		"stored":        {url, map[string]any{"from": "STORED"}, "one\nTOKEN\noffline\n"},
		"host":          {url, map[string]any{"value": gitToken, "host": "git.test"}, "one\noffline\n"},
		"host, another": {"https://git.test/mine/app.git", map[string]any{"from": "STORED", "host": "git.test", "template": "Basic me:{}"}, "one\noffline\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(tt.url, tt.token, look, "network_policy", "deny_all")
			if source, _ := got["git"].(map[string]any); got["stdout"] != tt.stdout || source["commit"] != commit {
				t.Errorf("%v", got)
			}
		})
	}

	value := map[string]any{"value": gitToken}
	for name, tt := range map[string]struct {
		url   string
		token map[string]any
		parts []string
	}{
		"wrong":             {url, map[string]any{"value": "another-token-0123"}, []string{"authentication with TOKEN failed", "the secret's value"}},
		"wrong user":        {"https://git.test/mine/app.git", value, []string{"authentication with TOKEN failed"}},
		"another host":      {"https://git.test/away/app.git", value, []string{"sends clients to other.test"}},
		"wrong certificate": {"https://wrong.test/private/app.git", value, []string{"certificate of the repository's server is not trusted"}},
		"echo":              {"https://git.test/echo/app.git", value, []string{"got Basic ****", " and " + strings.Repeat("*", len(gitToken)) + "."}},
		"split echo":        {"https://git.test/split/app.git", value, []string{"got " + strings.Repeat("*", len(gitToken)) + "."}},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(tt.url, tt.token, "echo ran")
			output := toText(got["message"]) + toText(got["hint"])
			if got["reason_code"] != "clone_failed" || got["stdout"] != "" {
				t.Errorf("%v", got)
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
		url    string
		secret string
		token  map[string]any
	}{
		"name":       {url, gitToken, value},
		"other host": {url, "TOKEN", map[string]any{"value": gitToken, "host": "other.test"}},
		"two lines":  {url, "TOKEN", map[string]any{"value": gitToken + "\n" + gitToken}},
		"port":       {"https://git.test:8443/x.git", "TOKEN", value},
	} {
		for path, command := range map[string]any{"/runs": []string{"true"}, "/sessions": nil} {
			body := map[string]any{
				"spec_version": "1.1", "base_image": "host", "git": map[string]any{"url": tt.url, "secret": tt.secret}, "secrets": map[string]any{"TOKEN": tt.token},
			}
			if command != nil {
				body["command"] = command
			}
			status, answer := s.ask(http.MethodPost, api+path, body)
			if status != http.StatusBadRequest || !strings.Contains(toText(answer), `"field":"git.secret"`) {
				t.Errorf("%s %s: %d %v", path, name, status, answer)
			}
			hidden(t, "the answer", toText(answer))
		}
	}
	s.kill()
	hidden(t, "the server's log", s.output.String())
	mentions(t, data)
}

// TestGitSecretRestart kills a server while a run and a session over a private repository wait. Both start on the next one.
func TestGitSecretRestart(t *testing.T) {
	data := t.TempDir()
	_, commit, start := private(t, data)
	args := []string{"--set", "approval=git", "--set", "end_sessions=false"}
	s := start(args...)
	ids := map[string]string{}
	as := "X-API-KEY: " + s.user("ann")
	var asked []string
	for path, id := range map[string]string{"/runs": "run_id", "/sessions": "session_id"} {
		body := map[string]any{
			"spec_version": "1.1", "base_image": "host", "git": map[string]any{"url": "https://git.test/private/app.git", "secret": "TOKEN"},
			"secrets": map[string]any{"TOKEN": map[string]any{"value": gitToken, "host": "git.test"}},
		}
		if path == "/runs" {
			body["command"] = []string{"head", "-n", "1", "a.txt"}
		}
		status, made := s.ask(http.MethodPost, api+path, body, as)
		approval, _ := made["approval"].(map[string]any)
		if status/100 != 2 || approval["state"] != "pending" {
			t.Fatalf("%s: %d %v", path, status, made)
		}
		ids[path], asked = made[id].(string), append(asked, approval["id"].(string))
	}
	s.kill()
	mentions(t, data)
	s = start(args...)
	for _, id := range asked {
		if status, answer := s.ask(http.MethodPost, api+"/admin/approvals/"+id, map[string]any{"decision": "approve"}); status != http.StatusOK {
			t.Fatalf("%d %v", status, answer)
		}
	}
	run := s.wait(ids["/runs"])
	source, _ := run["git"].(map[string]any)
	if out, err := s.get(api + "/runs/" + ids["/runs"] + "/logs"); err != nil || out != "one\n" || source["commit"] != commit {
		t.Errorf("%q, %v: %v", out, err, run)
	}
	until(t, "the session is made", func() bool {
		_, made := s.ask(http.MethodGet, api+"/sessions/"+ids["/sessions"], nil)
		source, _ := made["git"].(map[string]any)
		if state := made["state"]; state != "active" && state != "starting" {
			t.Fatalf("%v", made)
		}
		return made["state"] == "active" && source["commit"] == commit
	})
}
