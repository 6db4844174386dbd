package belljar_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// TestLanguageCommands states the command line of every language, also of those that this machine lacks.
func TestLanguageCommands(t *testing.T) {
	want := map[string]string{
		"py":   `python3|x.py|a|b c`,
		"js":   `node|x.js|a|b c`,
		"ts":   `node|--experimental-strip-types|--no-warnings|x.ts|a|b c`,
		"sh":   `bash|x.sh|a|b c`,
		"rb":   `ruby|x.rb|a|b c`,
		"pl":   `perl|x.pl|a|b c`,
		"java": `java|x.java|a|b c`,
		"go":   `'go' build -o "$program" "$source" || exit`,
		"c":    `'cc' -o "$program" "$source" -lm || exit`,
		"cpp":  `'c++' -o "$program" "$source" || exit`,
		"rs":   `'rustc' --edition 2021 -o "$program" "$source" || exit`,
	}
	for _, l := range belljar.Languages() {
		extension := l.Extensions[0]
		argv := l.Command(l.Programs[0], "x."+extension, []string{"a", "b c"})
		if !l.Compiled() {
			if got := strings.Join(argv, "|"); got != want[extension] {
				t.Errorf("%s: %s, want %s", l.Name, got, want[extension])
			}
			continue
		}
		if !slices.Contains(strings.Split(argv[2], "\n"), want[extension]) {
			t.Errorf("%s: script has no line\n%s\nbut\n%s", l.Name, want[extension], argv[2])
		}
		if tail := argv[3:]; !slices.Equal(tail, []string{"x." + extension, "a", "b c"}) {
			t.Errorf("%s: operands %q", l.Name, tail)
		}
	}
}

// TestCompiledQuoting runs the script of a compiled language with a compiler that is a shell script: names and
// arguments must arrive as they were, whatever is in them.
func TestCompiledQuoting(t *testing.T) {
	dir := t.TempDir()
	compiler := filepath.Join(dir, "it's $(a) compiler")
	text := "#!/bin/sh\n# called as: -o PROGRAM SOURCE -lm\nprintf '#!/bin/sh\\nprintf \"%%s|\" \"$@\"; exit 9\\n' >\"$2\"; chmod +x \"$2\"; printf '%s|' \"$3\"\n"
	if err := os.WriteFile(compiler, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	l, _ := belljar.LanguageOf("c")
	argv := l.Command(compiler, "a b;$(x)'.c", []string{"", "two words", "$HOME", "`id`", "-o"})
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := cmd.Output()
	if got, want := string(out), "a b;$(x)'.c||two words|$HOME|`id`|-o|"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 9 {
		t.Errorf("status %v, want the program's own 9", err)
	}
}

func TestLanguagesDoNotOverlap(t *testing.T) {
	seen := map[string]string{}
	for _, l := range belljar.Languages() {
		for _, extension := range l.Extensions {
			if other := seen[extension]; other != "" {
				t.Errorf(".%s is both %s and %s", extension, other, l.Name)
			}
			seen[extension] = l.Name
		}
	}
}

func TestLanguageNames(t *testing.T) {
	seen := map[string]string{}
	for _, l := range belljar.Languages() {
		for _, alias := range l.Aliases {
			if other := seen[alias]; other != "" {
				t.Errorf("%s is both %s and %s", alias, other, l.Name)
			}
			seen[alias] = l.Name
			if got, ok := belljar.LanguageOf(strings.ToUpper(alias)); !ok || got.Name != l.Name {
				t.Errorf("LanguageOf(%s) = %s, %t", alias, got.Name, ok)
			}
		}
	}
	if l, ok := belljar.LanguageOf(""); ok {
		t.Errorf("no name is %s", l.Name)
	}
}

// What nobody has looked for is found inside: the first program that is there, by its name only.
func TestProgramIsFoundInside(t *testing.T) {
	bin := t.TempDir()
	l := belljar.Language{Name: "x", Extensions: []string{"x"}, Programs: []string{"first", "second", "third"}}
	run := func() string {
		argv := l.Command("", "a file", []string{"b c", ""})
		cmd := exec.Command("/bin/sh", argv[1:]...)
		cmd.Env = []string{"PATH=" + bin}
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if got := run(); !strings.Contains(got, "first") {
		t.Errorf("without any: %q", got)
	}
	for _, name := range []string{"second", "first"} {
		text := "#!/bin/sh\nprintf '%s|' " + name + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, want := run(), name+"|a file|b c||"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
