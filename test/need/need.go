// Package need ends tests that need what a machine lacks. A test that is skipped on the machine that is to run it tests nothing.
package need

import (
	"os"
	"os/exec"
	"testing"
)

// Missing ends a test for which something is missing that make packages installs. It fails where make packages can, as root on
// Debian, and is skipped elsewhere.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if _, err := os.Stat("/etc/debian_version"); err == nil && os.Geteuid() == 0 {
		t.Fatalf("missing, make packages installs it: "+format, args...)
	}
	t.Skipf("missing: "+format, args...)
}

// Program returns the path of a program that a test needs.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, "%v", err)
	}
	return path
}
