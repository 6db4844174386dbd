//go:build linux

package security

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/test/image"
	"github.com/belljar/belljar/test/index"
	"github.com/belljar/belljar/test/peer"
	"github.com/belljar/belljar/test/tier"
)

// clients gives the sandbox a host that serves the files of common clients, and lets it reach that host but no other.
func clients(t *testing.T, tr *trial) func(outcome) {
	p := peer.Start(t, "api.test", "files.test", "other.test")
	x := index.Start(t, p, "api.test", "files.test")
	x.Wheel("thing", "1.0", map[string]string{"thing.py": "value = 42\n"})
	x.Node("thing", "1.0.0", map[string]string{"index.js": "module.exports = 42\n"}, nil, nil)
	repositories := t.TempDir()
	p.ServeGit(t, repositories)
	r := peer.NewRepository(t, filepath.Join(repositories, "app.git"))
	r.Commit("main", r.File("a.txt", "hello\n"))
	x.Module("thing.test/m", "v1.0.0", "package m\n")
	x.Crate("thing", "1.0.0", "")
	x.Serve(t, p)
	ca := filepath.Join(tr.dir, "peer.pem")
	if err := os.WriteFile(ca, p.CA, 0o644); err != nil {
		t.Fatal(err)
	}
	tr.env = append(tr.env, "SANDBOX_EGRESS_RESOLVER="+p.Resolver)
	for _, rule := range []string{"api.test", "files.test", p.Address} {
		tr.flags = append(tr.flags, "--allow", rule)
	}
	tr.flags = append(tr.flags, "--file", ca+":peer.pem")
	return func(outcome) {
		if p.Hosts()["other.test"] > 0 || p.Asked()["other.test"] > 0 {
			t.Errorf("the other host had %d requests, the resolver %d queries for it", p.Hosts()["other.test"], p.Asked()["other.test"])
		}
		if p.Hosts()["api.test"] == 0 {
			t.Error("control: the host had no requests")
		}
	}
}

// clientPrograms returns the tar of an image with common clients: few, copied from this machine, or all of them. The shell is not busybox,
// which would run its own wget.
func clientPrograms(t *testing.T) string {
	return tier.Pick(func() string {
		return image.Programs(t, "/usr/bin/sh", "/usr/bin/curl", "/usr/bin/wget", "/usr/bin/git", "/usr/lib/git-core/git-remote-https")
	}, func() string { return image.Clients(t) })()
}
