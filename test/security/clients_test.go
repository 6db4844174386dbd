//go:build linux

package security

import (
	"archive/zip"
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/test/index"
	"github.com/belljar/belljar/test/peer"
	"github.com/belljar/belljar/test/tier"
)

// clients gives the sandbox a host that has what ordinary clients fetch, and lets it reach that host and not another one.
func clients(t *testing.T, tr *trial) func(outcome) {
	p := peer.Start(t, "api.test", "files.test", "other.test")
	x := index.Start(t, p, "api.test", "files.test")
	x.Wheel("thing", "1.0", map[string]string{"thing.py": "value = 42\n"})
	x.Node("thing", "1.0.0", map[string]string{"index.js": "module.exports = 42\n"}, nil, nil)
	repositories := t.TempDir()
	p.ServeGit(t, repositories)
	r := peer.NewRepository(t, filepath.Join(repositories, "app.git"))
	r.Commit("main", r.File("a.txt", "hello\n"))
	serveModule(t, p)
	ca := filepath.Join(tr.dir, "peer.pem")
	if err := os.WriteFile(ca, p.CA, 0o644); err != nil {
		t.Fatal(err)
	}
	tr.env = append(tr.env, "SANDBOX_EGRESS_RESOLVER="+p.Resolver)
	for _, rule := range []string{"api.test", "files.test", p.Address} {
		tr.flags = append(tr.flags, "--allow", rule)
	}
	tr.flags = append(tr.flags, "--file", ca+":peer.pem", "--env", "LANE_LONG="+tier.Pick("", "1")) // some take seconds to start
	return func(outcome) {
		if p.Hosts()["other.test"] > 0 || p.Asked()["other.test"] > 0 {
			t.Errorf("the other host had %d requests, the resolver %d queries for it", p.Hosts()["other.test"], p.Asked()["other.test"])
		}
		if p.Hosts()["api.test"] == 0 {
			t.Error("control: the host had no requests")
		}
	}
}

// serveModule serves a Go module, as a module proxy does.
func serveModule(t *testing.T, p *peer.Peer) {
	t.Helper()
	const mod = "module thing.test/m\n"
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for name, text := range map[string]string{"go.mod": mod, "m.go": "package m\n"} {
		w, err := z.Create("thing.test/m@v1.0.0/" + name)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for suffix, body := range map[string]string{"info": `{"Version": "v1.0.0"}`, "mod": mod, "zip": archive.String()} {
		p.Handle("/go/thing.test/m/@v/v1.0.0."+suffix, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
	}
}
