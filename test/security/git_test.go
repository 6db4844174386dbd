//go:build linux

package security

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/test/peer"
)

// repository makes the run begin with a repository that attacks its clone. Another host, which its submodule names, must get no
// request.
func repository(t *testing.T, tr *trial) func(outcome) {
	p := peer.Start(t, "git.test", "other.test")
	dir := t.TempDir()
	p.ServeGit(t, dir)
	r := peer.NewRepository(t, filepath.Join(dir, "hostile.git"))
	const run = "touch owned" // in git's working folder, which the run gets
	hook := peer.Entry{Mode: "100755", Kind: "blob", Hash: r.Blob("#!/bin/sh\n" + run + "\n"), Name: "post-checkout"}
	r.Commit("main",
		r.File("a.txt", "hello\n"), r.Link("good", "a.txt"), r.Link("passwd", "/etc/passwd"), r.Link("up", "../.."), r.Link("git", "../git"),
		r.Folder("hooks", hook), r.Folder(".githooks", hook), r.File("config", "[core]\n\tfsmonitor = "+run+"\n\thooksPath = hooks\n"),
		r.File(".gitattributes", "* filter=evil\n*.bin filter=lfs\n"), r.File(".gitconfig", "[filter \"evil\"]\n\tsmudge = "+run+"\n"),
		r.File(".dockerignore", "**/../**\n!**\n*~\n"),
		r.File("pointer.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 5\n"),
		r.File(".gitmodules", "[submodule \"m\"]\n\tpath = module\n\turl = https://other.test/git/hostile.git\n"),
		peer.Entry{Mode: "160000", Kind: "commit", Hash: "0123456789abcdef0123456789abcdef01234567", Name: "module"},
	)
	ca := filepath.Join(tr.dir, "ca.pem")
	if err := os.WriteFile(ca, p.CA, 0o644); err != nil {
		t.Fatal(err)
	}
	tr.env = append(tr.env, "SANDBOX_EGRESS_RESOLVER="+p.Resolver, "SANDBOX_EGRESS_CA_FILE="+ca, "SANDBOX_EGRESS_ALLOW=git.test,other.test,"+p.Address)
	tr.flags = append(tr.flags, "--git", "https://git.test/git/hostile.git")
	return func(outcome) {
		if n := p.Hosts()["other.test"]; n > 0 {
			t.Errorf("another host had %d requests", n)
		}
		if p.Hosts()["git.test"] == 0 {
			t.Error("control: the repository was not asked for")
		}
	}
}
