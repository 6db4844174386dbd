package repl_test

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/repl"
)

func TestComplete(t *testing.T) {
	for _, test := range []struct {
		language, code string
		complete       bool
	}{
		{"python", "x = 1", true}, {"python", "def f():", false}, {"python", "def f():\n  return 1", false}, {"python", "def f():\n  return 1\n", true},
		{"python", "f(1,", false}, {"python", "f(1,\n2)", true}, {"python", "'''a", false}, {"python", "'''a\nb'''", true}, {"python", "'a(", true},
		{"python", "x = 1 \\", false}, {"python", "# (", true}, {"python", "@cached", false}, {"python", `"\""`, true},
		{"python", "def f():  # 1", false}, {"python", "x = 1  # 1: 2", true},
		{"javascript", "function f() {", false}, {"javascript", "function f() {\n}", true}, {"javascript", "`a", false}, {"javascript", "// {", true},
		{"javascript", "s.match(/[(]/)", true}, {"javascript", "a = (1 / 2", false}, {"javascript", "/* ( */", true},
		{"javascript", "x = 1 /* ( */", true}, {"javascript", "/* it's\n", false}, {"javascript", "/* ( \\*/", true}, {"javascript", "f( /* ) */", false},
		{"javascript", "`${`(`}`", true}, {"javascript", "`${f({a: '}'})} {`", true}, {"javascript", "`${f(", false}, {"javascript", "`(`", true}, {"javascript", "'`'", true},
		{"javascript", "x) (", true},
		{"bash", "for x in 1 2; do", false}, {"bash", "for x in 1 2; do\necho $x\ndone", true}, {"bash", "echo 'a", false}, {"bash", "ls |", false}, {"bash", "ls", true},
		{"bash", "echo 'for x'; echo if", true}, {"bash", "cat <<E\na\n\n", false}, {"bash", "cat <<E\na\nE", true}, {"bash", "cat <<E", false},
		{"bash", "cat <<'EOF'\na", false}, {"bash", "cat <<'EOF'\na\nEOF", true}, {"bash", "cat <<-E && ls\n\tE", true}, {"bash", "x=$(cat <<E", false},
		{"bash", "cat <<<E", true}, {"bash", "cat <<E | cat <<F\na\nE\n", false}, {"bash", "ls \\", false}, {"bash", ")", true},
	} {
		if got := repl.Complete(test.language, test.code); got != test.complete {
			t.Errorf("%s %q: %v", test.language, test.code, got)
		}
	}
}

func TestText(t *testing.T) {
	for want, r := range map[string]belljar.Result{
		"5":                  {Type: belljar.ResultValue, Data: map[string]any{"text/plain": "5"}},
		"fig\n[image/png]":   {Type: belljar.ResultDisplay, Data: map[string]any{"text/plain": "fig", "image/png": "aGk="}},
		"[2Jx":               {Type: belljar.ResultValue, Data: map[string]any{"text/plain": "\x1b[2J\u009bx"}},
		"":                   {Type: belljar.ResultError, Name: "E"},
		"[more was dropped]": {Type: belljar.ResultCut, Text: "more was dropped"},
	} {
		if got := repl.Text(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
