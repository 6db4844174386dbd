//go:build linux

package e2e

import (
	"os"
	"testing"
)

// lacks ends a test for which a program is missing: it fails as root, for whom make test installs what tests need, and is skipped for
// other users.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Fatalf("missing: %s", what)
	}
	t.Skipf("only root can install what is missing: %s", what)
}
