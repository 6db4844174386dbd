//go:build linux

package cli_test

import (
	"os"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/belljar/belljar/test/index"
	"github.com/belljar/belljar/test/peer"
)

// peerScript returns the script command peer NAME…: it starts a server under these names at $PEER, to which sandboxes can connect,
// and makes later commands, and the next server, resolve them. The file ca.pem has the certificate of its CA.
func peerScript(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, names []string) {
		if neg || len(names) == 0 {
			ts.Fatalf("usage: peer NAME…")
		}
		p := peer.Start(t, names...)
		p.ServeGit(t, ts.MkAbs("repositories"))
		ts.Setenv("PEER", p.Address)
		ts.Setenv("SANDBOX_EGRESS_RESOLVER", p.Resolver)
		ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), p.CA, 0o644))
		if slices.Contains(names, "packages.test") { // it has an index with one package
			x := index.Start(t, p, "packages.test", "files.test")
			x.Wheel("requests", "9.9", map[string]string{"requests.py": "import urllib.request as u\n\ndef get(url):\n    return u.urlopen(url, timeout=1000).read().decode()\n"})
			ts.Setenv("SANDBOX_PACKAGE_MIRRORS", "pip="+x.PipURL())
			ts.Setenv("SANDBOX_EGRESS_CA_FILE", ts.MkAbs("ca.pem"))
			ts.Setenv("SANDBOX_DATA", ts.MkAbs("data"))
		}
	}
}

// repositoryScript returns the script command repository NAME FILE…: it makes a repository with these files, which the peer serves
// as https://…/git/NAME.
func repositoryScript(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < 2 {
			ts.Fatalf("usage: repository NAME FILE…")
		}
		r := peer.NewRepository(t, ts.MkAbs("repositories/"+args[0]))
		var files []peer.Entry
		for _, name := range args[1:] {
			files = append(files, r.File(name, ts.ReadFile(name)))
		}
		ts.Setenv("COMMIT", r.Commit("main", files...))
	}
}
