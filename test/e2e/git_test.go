//go:build linux

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/peer"
)

// cloning starts a server whose sandboxes may reach a peer with repositories, and returns the folder of these.
func cloning(t *testing.T, p *peer.Peer, args ...string) (*server, string) {
	t.Helper()
	dir := t.TempDir()
	p.ServeGit(t, dir)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, p.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{
		"--set", "egress_allow=git.test,other.test," + p.Address, "--set", "egress_private=true", "--set", "egress_resolver=" + p.Resolver,
		"--set", "egress_ca_file=" + ca,
	}, args...)
	return serve(t, t.TempDir(), args...), dir
}

// clones runs a command over a repository, to its end.
func (s *server) clones(git map[string]any, command ...string) map[string]any {
	s.t.Helper()
	status, run := s.ask(http.MethodPost, api+"/runs?wait=100s", map[string]any{
		"spec_version": "1.0", "base_image": "host", "command": command, "git": git,
	})
	if status != http.StatusOK {
		s.t.Fatalf("%d %v", status, run)
	}
	return run
}

func TestGit(t *testing.T) {
	p := peer.Start(t, "git.test", "other.test")
	s, dir := cloning(t, p)
	r := peer.NewRepository(t, filepath.Join(dir, "app.git"))
	first := r.Commit("main", r.File("a.txt", "one\ntwo\nthree\n"), r.Folder("src", r.File("b.txt", "b\n"), r.Link("link", "../a.txt"), r.Link("out", "/etc/passwd")))
	second := r.Commit("main", r.File("a.txt", "one\ntwo\nthree\nfour\n"), r.Folder("src", r.File("b.txt", "b\n"), r.Link("link", "../a.txt"), r.Link("out", "/etc/passwd")))
	url := "https://git.test/git/app.git"
	run := s.clones(map[string]any{"url": url}, "sh", "-c", "find . | sort; cat a.txt; ls -l src")
	t.Log(toText(run))
	source, _ := run["git"].(map[string]any)
	if source["commit"] != second || first == second {
		t.Errorf("%v", source)
	}
	id := run["run_id"].(string)
	log, _ := s.get(api + "/runs/" + id + "/logs?format=json")
	t.Log(log)
	if !strings.Contains(log, `"event":"git"`) {
		t.Error("no frame")
	}
}
