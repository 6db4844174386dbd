// Package need ends tests on machines that lack their requirements. On machines that should have them, such tests fail, because a skipped test
// tests nothing.
package need

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// Missing ends a test whose requirement is missing. It fails as root on Debian, where make test expects the packages of make packages and
// root's kernel features. Elsewhere it skips: Ubuntu lacks some of the packages.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	release, _ := os.ReadFile("/etc/os-release")
	if expected(string(release), os.Geteuid()) {
		t.Fatalf("missing, though root on Debian has it after make packages: "+format, args...)
	}
	t.Skipf("missing: "+format, args...)
}

// expected reports whether a machine has what tests need. web/script/test.js and sdk/typescript/test/browser.test.ts have the same rule.
func expected(release string, uid int) bool {
	for line := range strings.Lines(release) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "ID="); ok {
			return strings.Trim(id, `"'`) == "debian" && uid == 0
		}
	}
	return false
}

// Arch skips a test that only machines of another architecture can run.
func Arch(t testing.TB, arch string) {
	t.Helper()
	if runtime.GOARCH != arch {
		t.Skip("it needs " + arch)
	}
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
