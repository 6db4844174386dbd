// Package need ends tests that need what a machine lacks. A test that is skipped on the machine that is to run it tests nothing.
package need

import (
	"os"
	"os/exec"
	"testing"
)

// Missing ends a test for which something is missing that a machine has which runs make test as root on Debian: what make packages installs, or
// what its kernel allows root. It fails there, and is skipped elsewhere.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if _, err := os.Stat("/etc/debian_version"); err == nil && os.Geteuid() == 0 {
		t.Fatalf("missing, though root on Debian has it after make packages: "+format, args...)
	}
	t.Skipf("missing: "+format, args...)
}

// Root skips a test that needs root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it needs root")
	}
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
