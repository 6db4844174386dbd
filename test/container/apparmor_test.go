//go:build linux

package container

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const profile = "../../deploy/apparmor/belljar"

// TestProfile parses the profile with AppArmor's own parser, if it supports user namespaces (4.0).
func TestProfile(t *testing.T) {
	raw, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			rules = append(rules, line)
		}
	}
	text := strings.Join(rules, "\n")
	// It grants one right and denies none: any denial would be an untested protection.
	want := regexp.MustCompile(`^abi <abi/4\.0>,\ninclude <tunables/global>\nprofile belljar /\S+bin/belljar\S* flags=\(unconfined\) \{\nuserns,\ninclude if exists <local/belljar>\n\}$`)
	if !want.MatchString(text) {
		t.Errorf("the profile is\n%s", text)
	}
	version, err := exec.Command("apparmor_parser", "--version").Output()
	if err != nil {
		t.Skipf("the profile is not read by AppArmor: %v", err)
	}
	m := regexp.MustCompile(`version (\d+)`).FindSubmatch(version)
	if m == nil {
		t.Fatalf("apparmor_parser --version: %q", version)
	}
	if major, err := strconv.Atoi(string(m[1])); err != nil || major < 4 {
		t.Skipf("the profile is not read by AppArmor: version %s knows no user namespaces", m[1])
	}
	if printed, err := exec.Command("apparmor_parser", "-Q", "-K", profile).CombinedOutput(); err != nil {
		t.Errorf("apparmor_parser: %v\n%s", err, printed)
	}
}
