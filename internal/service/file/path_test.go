package file

import (
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func TestPaths(t *testing.T) {
	for given, want := range map[string]string{
		"a": "a", "/workspace/a": "a", "a//b/": "a/b", "/workspace": ".", ".": ".",
	} {
		if got, err := filePath("path", given); got != want || err != nil {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
	for given, code := range map[string]belljar.Code{
		"": belljar.CodeInvalidRequest, "a\x00b": belljar.CodeInvalidRequest, "\xff": belljar.CodeInvalidRequest,
		"../a": belljar.CodePathEscapes, "a/../b": belljar.CodePathEscapes, "/etc/passwd": belljar.CodePathEscapes, "a/../../b": belljar.CodePathEscapes,
		strings.Repeat("x", 5000): belljar.CodeInvalidRequest,
	} {
		if got, err := filePath("path", given); belljar.CodeOf(err) != code {
			t.Errorf("%.20q: %q, %v", given, got, err)
		}
	}
	if got, err := folderPath("path", ""); got != "." || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := namedPath("path", "/workspace"); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCutText(t *testing.T) {
	for given, want := range map[string]string{"abc": "abc", "abcd": "abcd", "abcde": "abcd…", "abc\u00e9x": "abc�…"} {
		if got := cutText(given, 4); got != want {
			t.Errorf("%q: %q, not %q", given, got, want)
		}
	}
}
