//go:build linux

package e2e

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/peer"
	"github.com/belljar/belljar/test/tier"
)

const brokered = "s3cr3t-t0ken-0123"

// brokering starts a peer that knows a token, and a server that trusts the peer's certificate.
func brokering(t *testing.T, data string) (*peer.Peer, func() *server) {
	t.Helper()
	p := peer.Start(t, "api.test", "other.test")
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, p.CA, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", authority)
	p.Handle("/who", func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header["Authorization"]; len(got) != 1 || got[0] != "Bearer "+brokered {
			fmt.Fprintf(w, "anonymous %q\n", got)
			return
		}
		fmt.Fprintln(w, "granted")
	})
	p.Handle("/echo", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.Header.Get("Authorization")) })
	p.Handle("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://other.test/who", http.StatusFound)
	})
	return p, func() *server {
		return serve(t, data, "--set", "egress_allow=api.test,other.test,"+p.Address, "--set", "egress_private=true", "--set", "egress_resolver="+p.Resolver)
	}
}

// lent returns a request with a secret for api.test.
func lent(p *peer.Peer, more map[string]any) map[string]any {
	request := map[string]any{
		"spec_version": "1.1", "base_image": "host", "network_policy": "allowlist",
		"egress":  map[string]any{"hosts": []string{"api.test", "other.test"}, "ips": []string{p.Address}},
		"secrets": map[string]any{"TOKEN": map[string]any{"value": brokered, "host": "api.test"}},
	}
	maps.Copy(request, more)
	return request
}

// TestBroker runs real clients, which send a placeholder or nothing: only the host gets the secret.
func TestBroker(t *testing.T) {
	p, start := brokering(t, t.TempDir())
	repository := filepath.Join(t.TempDir(), "repo.git")
	for _, args := range [][]string{{"init", "-q", "--bare", repository}, {"-C", repository, "update-server-info"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	files := http.StripPrefix("/repo.git", http.FileServer(http.Dir(repository)))
	p.Handle("/repo.git/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+brokered {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		files.ServeHTTP(w, r)
	})
	s := start()
	run := func(t *testing.T, more map[string]any) map[string]any {
		t.Helper()
		status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", lent(p, more))
		if status != http.StatusOK {
			t.Fatalf("%d %v\n%s", status, run, s.output)
		}
		return run
	}
	sh := func(line string) map[string]any { return map[string]any{"command": []string{"sh", "-c", line}} }
	const java = `import java.net.URI; import java.net.http.*;
public class Main { public static void main(String[] args) throws Exception {
  var answer = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create("https://api.test/who")).build(), HttpResponse.BodyHandlers.ofString());
  System.out.print(answer.body() + answer.version() + "\n"); } }`
	for _, tt := range []struct {
		name, tool string // must be installed
		request    map[string]any
		want       string
	}{
		{"curl", "curl", sh(`curl -sS -H "Authorization: Bearer $TOKEN" https://api.test/who`), "granted\n"},
		{"curl, HTTP/2", "curl", sh(`curl -sS --http2 -w '%{http_version}\n' https://api.test/who`), "granted\n1.1\n"},
		{"python", "python3", map[string]any{"language": "python", "code": "import urllib.request as u\nprint(u.urlopen('https://api.test/who').read().decode(), end='')"}, "granted\n"},
		{"node", "node", map[string]any{"language": "node", "code": "fetch('https://api.test/who').then(r => r.text()).then(t => process.stdout.write(t))"}, "granted\n"},
		{"java", "java", map[string]any{
			"command": []string{"java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "Main.java"}, "files": []map[string]any{{"path": "Main.java", "content_b64": base64.StdEncoding.EncodeToString([]byte(java))}}, "resources": map[string]any{"memory_mb": 1024},
		}, "granted\nHTTP_1_1\n"},
		{"git", "git", sh(`git ls-remote https://api.test/repo.git && echo read`), "read\n"},
		{"placeholder", "sh", sh(`case $TOKEN in belljar-secret-????????????????) echo $SSL_CERT_FILE; [ ! -e /run/secrets ]; esac`), "/run/belljar/ca.pem\n"},
		{"other hosts", "curl", sh(`curl -sSk -H "Authorization: Bearer $TOKEN" https://other.test/who | grep -c belljar-secret`), "1\n"},
		{"redirect", "curl", sh(`curl -sSkL --location-trusted https://api.test/away`), "anonymous []\n"},
		{"echo", "curl", sh(`curl -sS https://api.test/echo`), "Bearer " + strings.Repeat("*", len(brokered)) + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.tool == "java" {
				tier.Soak(t) // it compiles
			}
			if _, err := exec.LookPath(tt.tool); err != nil {
				need.Missing(t, "%v", err)
			}
			got := run(t, tt.request)
			if got["stdout"] != tt.want || got["exit_code"] != 0.0 {
				t.Errorf("%v: %q\n%v\n%v", got["exit_code"], got["stdout"], got["stderr"], got["warnings"])
			}
			if strings.Contains(toText(got), brokered) {
				t.Errorf("the secret is in %v", got)
			}
		})
	}
	refused := run(t, sh(`curl -sS --max-time 20 http://api.test/who; env -i curl -sS https://api.test/who; true`))
	if out := refused["stdout"].(string); out != "" || !strings.Contains(toText(refused["warnings"]), "api.test is not allowed (brokered): it has a brokered secret") {
		t.Errorf("%q\n%v\n%v", out, refused["stderr"], refused["warnings"])
	}
	for field, request := range map[string]map[string]any{
		"secrets.TOKEN.host": {"egress": map[string]any{"hosts": []string{"other.test"}}},
		"env":                {"env": map[string]string{"SSL_CERT_FILE": "/x"}},
	} {
		request["command"] = []string{"true"}
		if status, answer := s.ask(http.MethodPost, api+"/runs", lent(p, request)); status != http.StatusBadRequest || !strings.Contains(toText(answer), `"`+field+`"`) {
			t.Errorf("%s: %d %v", field, status, answer)
		}
	}
}

// TestBrokerRestart kills the server: the programs of a session still reach the host with the secret.
func TestBrokerRestart(t *testing.T) {
	data := t.TempDir()
	p, start := brokering(t, data)
	s := start()
	status, session := s.ask(http.MethodPost, api+"/sessions", lent(p, nil))
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, session)
	}
	id := session["session_id"].(string)
	const who = "echo $TOKEN; curl -sS https://api.test/who"
	exec := func(s *server, wait, line string) map[string]any {
		t.Helper()
		status, run := s.ask(http.MethodPost, api+"/runs"+wait, map[string]any{"spec_version": "1.1", "session_id": id, "command": []string{"sh", "-c", line}, "timeout_sec": 120})
		if status/100 != 2 {
			t.Fatalf("%s: %d %v\n%s", line, status, run, s.output)
		}
		return run
	}
	first := exec(s, "?wait=600s", who)
	if out, _ := first["stdout"].(string); !strings.HasPrefix(out, "belljar-secret-") || !strings.HasSuffix(out, "\ngranted\n") {
		t.Fatalf("%q %v", out, first["stderr"])
	}
	left := exec(s, "", "echo begun; until [ -e go ]; do sleep 0.1; done; "+who)
	until(t, "the run has begun", func() bool {
		text, err := s.get(api + "/runs/" + left["run_id"].(string) + "/logs")
		return err == nil && text != ""
	})
	s.kill()
	err := filepath.Walk(data, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			if text, _ := os.ReadFile(path); strings.Contains(string(text), brokered) {
				t.Errorf("%s has the secret", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	next := start()
	exec(next, "?wait=600s", "touch go")
	if run := next.wait(left["run_id"].(string)); run["exit_code"] != 0.0 {
		t.Errorf("a run that outlived its server: %v\n%s", run, next.output)
	}
	log, err := next.get(api + "/runs/" + left["run_id"].(string) + "/logs?format=json")
	if err != nil || !strings.Contains(log, "granted") {
		t.Errorf("%v: %s", err, log)
	}
	if again := exec(next, "?wait=600s", who); again["stdout"] != first["stdout"] {
		t.Errorf("after the restart: %q, %v", again["stdout"], again["stderr"])
	}
	if status, answer := next.ask(http.MethodDelete, api+"/sessions/"+id, nil); status/100 != 2 {
		t.Errorf("%d %v", status, answer)
	}
}
