// Package need ends tests on machines that lack their requirements. On machines that should have them, such tests fail, because a skipped test
// tests nothing.
package need

import (
	"os"
	"os/exec"
	"testing"
)

// Missing ends a test whose requirement is missing. It fails as root on Debian, where make test expects the packages of make packages and
// root's kernel features. Elsewhere it skips.
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
