//go:build linux

package cli_test

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/belljar/belljar/test/peer"
)

// peerScript returns the script command peer NAME…: it starts what sandboxes can connect to by these names, at $PEER, and lets the
// commands after it, and the next server, resolve them. $PEER_CA is a file with the certificate of its CA.
func peerScript(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, names []string) {
		if neg || len(names) == 0 {
			ts.Fatalf("usage: peer NAME…")
		}
		p := peer.Start(t, names...)
		ts.Setenv("PEER", p.Address)
		ts.Setenv("SANDBOX_EGRESS_RESOLVER", p.Resolver)
		ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), p.CA, 0o644))
	}
}
