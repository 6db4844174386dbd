package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
	for _, l := range languages() {
		extension := l.extensions[0]
		argv := l.command(l.programs[0], "x."+extension, []string{"a", "b c"})
		if !l.compiled() {
			if got := strings.Join(argv, "|"); got != want[extension] {
				t.Errorf("%s: %s, want %s", l.name, got, want[extension])
			}
			continue
		}
		if !slices.Contains(strings.Split(argv[2], "\n"), want[extension]) {
			t.Errorf("%s: script has no line\n%s\nbut\n%s", l.name, want[extension], argv[2])
		}
		if tail := argv[3:]; !slices.Equal(tail, []string{"x." + extension, "a", "b c"}) {
			t.Errorf("%s: operands %q", l.name, tail)
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
	l, _ := languageOf(".c")
	argv := l.command(compiler, "a b;$(x)'.c", []string{"", "two words", "$HOME", "`id`", "-o"})
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

func TestShebang(t *testing.T) {
	for text, want := range map[string]string{
		"#!/bin/sh\nx":                       "sh",
		"#! /usr/bin/python3 -u\nx":          "python3 -u",
		"#!/usr/bin/env node\nx":             "node",
		"#!/usr/bin/env -S awk -f\nx":        "awk -f",
		"#!/usr/bin/env\n":                   "",
		"#!\n":                               "",
		"# no shebang":                       "",
		" #!/bin/sh":                         "",
		"":                                   "",
		"#!/bin/" + strings.Repeat("x", 999): strings.Repeat("x", 249),
	} {
		if got := strings.Join(shebang([]byte(text)), " "); got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
}

func TestLanguagesDoNotOverlap(t *testing.T) {
	seen := map[string]string{}
	for _, l := range languages() {
		for _, extension := range l.extensions {
			if other := seen[extension]; other != "" {
				t.Errorf(".%s is both %s and %s", extension, other, l.name)
			}
			seen[extension] = l.name
		}
	}
}

// TestTypeScript: node runs TypeScript as it is from 22.6 on; an older one, or something else of that name, is told.
func TestTypeScript(t *testing.T) {
	for version, want := range map[string]string{
		"v22.6.0": "", "v24.1.0": "",
		"v22.5.9":  "node v22.5.9 cannot run TypeScript",
		"v20.20.2": "node v20.20.2 cannot run TypeScript",
		"what":     `node says its version is "what"`,
		"vx.y.z":   `node says its version is "vx.y.z"`,
	} {
		node := filepath.Join(t.TempDir(), "node")
		if err := os.WriteFile(node, []byte("#!/bin/sh\necho "+version+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := stripsTypes(t.Context(), node); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
}
