package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are the documents that users read.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{"../README.md", "../CHANGELOG.md", "../CONTRIBUTING.md", "../SECURITY.md", "../CODE_OF_CONDUCT.md"}
	for _, pattern := range []string{"*.md", "decisions/*.md", "../examples/README.md", "../examples/*/README.md", "../sdk/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, found...)
	}
	return list
}

// prose returns the lines of a document with those of code blocks left empty.
func prose(t *testing.T, name string) []string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	code := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			code = !code
		}
		if code || fence {
			lines[i] = ""
		}
	}
	return lines
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	slugged = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the places in a document that a link can name, as GitHub makes them of its headings.
func anchors(t *testing.T, name string) []string {
	t.Helper()
	var list []string
	for _, line := range prose(t, name) {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			slug := slugged.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			list = append(list, strings.ReplaceAll(slug, " ", "-"))
		}
	}
	return list
}

// TestLinks follows every link to a file of the repository, and to a heading in it.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		for i, line := range prose(t, page) {
			for _, match := range link.FindAllStringSubmatch(line, -1) {
				target, anchor, _ := strings.Cut(match[1], "#")
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				file := page
				if target != "" {
					file = filepath.Join(filepath.Dir(page), target)
				}
				if _, err := os.Stat(file); err != nil {
					t.Errorf("%s:%d: %s: no such file", page, i+1, match[1])
				} else if anchor != "" && !slices.Contains(anchors(t, file), anchor) {
					t.Errorf("%s:%d: %s: no such heading", page, i+1, match[1])
				}
			}
		}
	}
}

// widest is how many columns a line of prose may take.
const widest = 160

// TestWidth holds lines of prose, outside of tables, code and what is generated, to a width that editors show.
func TestWidth(t *testing.T) {
	for _, page := range pages(t) {
		for i, line := range prose(t, page) {
			if strings.HasPrefix(line, "<!-- begin results") {
				break
			}
			if n := len([]rune(line)); n > widest && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d has %d columns, want at most %d", page, i+1, n, widest)
			}
		}
	}
}
