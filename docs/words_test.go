package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// avoided are words of style.md's table that have no other use in prose.
	avoided = regexp.MustCompile(`(?i)\b(nobody|somebody|everybody|anybody|whoever|heed(s|ed)?|mend(s|ed)?|anew|any more|without a word|go on|goes on|went on)\b`)
	quoted  = regexp.MustCompile("`[^`]*`")
)

// TestWords refuses words that style.md replaces, outside of code.
func TestWords(t *testing.T) {
	for _, page := range pages(t) {
		if page == "style.md" {
			continue
		}
		for i, line := range prose(t, page) {
			if word := avoided.FindString(quoted.ReplaceAllString(line, "")); word != "" {
				t.Errorf("%s:%d: %q: style.md has another word", page, i+1, word)
			}
		}
	}
}

// text returns a file of the repository.
func text(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// contains requires parts of a document.
func contains(t *testing.T, page string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text(t, page), part) {
			t.Errorf("%s lacks %q", page, part)
		}
	}
}

// TestEntrances: the first pages lead to installation, contribution and the address for vulnerabilities, and the README names each folder.
func TestEntrances(t *testing.T) {
	contains(t, "../README.md", "](docs/install.md)", "](CONTRIBUTING.md)", "](SECURITY.md)")
	contains(t, "README.md", "](install.md)", "](../CONTRIBUTING.md)", "](../SECURITY.md)")
	contains(t, "security.md", "](../SECURITY.md)")

	_, tree, _ := strings.Cut(text(t, "../README.md"), "\n## Source tree\n")
	for _, folder := range git(t, "ls-tree", "-d", "--name-only", "HEAD") {
		if hidden := strings.HasPrefix(folder, "."); !hidden && folder != "testdata" && !strings.Contains(tree, "`"+folder) {
			t.Errorf("the source tree of README.md lacks %s", folder)
		}
	}
}

// TestWeakHost: the first commands work, or show the way, for an ordinary user without a delegated cgroup. There a server does not
// start, and a request with a limit of memory is refused.
func TestWeakHost(t *testing.T) {
	const limits = "runtimes.md#limits-that-a-host-cannot-enforce"
	for _, page := range []string{"../README.md", "build.md", "hosted.md", "runtimes.md"} {
		contains(t, page, "systemd-run --user --scope -p Delegate=yes", "--set allow_weak=memory,cpu")
	}
	for _, page := range []string{"build.md", "hosted.md", "webui.md", "contexts.md", "ports.md", "agent.md"} {
		contains(t, page, limits)
	}
	first, _, found := strings.Cut(text(t, "agent.md"), "\n## What to set\n")
	if !found || strings.Contains(first, "memory") {
		t.Error("agent.md sets a limit of memory before it describes what to set")
	}
	configs, err := filepath.Glob("../examples/mcp/*.*")
	if err != nil || len(configs) < 6 {
		t.Fatal(configs, err)
	}
	for _, config := range configs {
		if strings.Contains(text(t, config), "--memory") {
			t.Errorf("%s sets a limit of memory", config)
		}
	}
}
