package need

import (
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestExpected(t *testing.T) {
	const debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n"
	for _, c := range []struct {
		name, release string
		uid           int
		want          bool
	}{
		{"root on Debian", debian, 0, true},
		{"root on Debian, in quotes", "ID=\"debian\"\n", 0, true},
		{"a user on Debian", debian, 1000, false},
		{"root on Ubuntu", "NAME=\"Ubuntu\"\nVERSION_ID=\"24.04\"\nID=ubuntu\nID_LIKE=debian\n", 0, false},
		{"root on Fedora", "ID=fedora\nVERSION_ID=42\n", 0, false},
		{"no release", "", 0, false},
	} {
		if got := expected(c.release, c.uid); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestArch: the architecture of this machine never skips.
func TestArch(t *testing.T) {
	for arch, want := range map[string]bool{runtime.GOARCH: false, "another": true} {
		skipped := false
		t.Run(arch, func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			Arch(t, arch)
		})
		if skipped != want {
			t.Errorf("%s: skipped %v", arch, skipped)
		}
	}
}

// TestRuleOfBrowsers: the tests in a browser read the system's name, too. Ubuntu has /etc/debian_version, but no package of Chromium.
func TestRuleOfBrowsers(t *testing.T) {
	for _, name := range []string{"../../web/script/test.js", "../../sdk/typescript/test/browser.test.ts"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `/^ID=["']?debian["']?$/m`) || strings.Contains(string(text), "debian_version") {
			t.Errorf("%s has another rule than expected", name)
		}
	}
}
