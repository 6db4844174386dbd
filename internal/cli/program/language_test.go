package program

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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

// TestTypeScript: node runs TypeScript since 22.6. An older node, or another program with that name, is an
// error.
func TestTypeScript(t *testing.T) {
	for version, want := range map[string]string{
		"v22.6.0": "", "v24.1.0": "",
		"v22.5.9":  "node v22.5.9 cannot run TypeScript",
		"v20.20.2": "node v20.20.2 cannot run TypeScript",
		"what":     `node reports version "what"`,
		"vx.y.z":   `node reports version "vx.y.z"`,
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

// TestFileNames: a compiler takes the language of a file from its name, so that the name in the workspace has the right extension.
func TestFileNames(t *testing.T) {
	for _, test := range []struct{ file, lang, want string }{
		{"unnamed", "c", "unnamed.c"},
		{"SUM.C", "", "SUM.c"},
		{"sum.c", "", "sum.c"},
		{"sum.c", "c++", "sum.cpp"},
		{"sum.cc", "", "sum.cc"},
		{"SUM.CC", "", "SUM.cpp"},
		{"sum.v2", "go", "sum.go"},
		{"Sum.JAVA", "", "Sum.java"},
		{"sum.txt", "ts", "sum.ts"},
		{"sum.mts", "", "sum.mts"},
		{"sum.txt", "py", "sum.txt"}, // python3 runs any file
	} {
		file := filepath.Join(t.TempDir(), test.file)
		if err := os.WriteFile(file, []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
		a := Arguments{Args: []string{file, "argument"}, Lang: test.lang}
		p, err := a.Read(t.Context())
		if err != nil || len(p.Files) != 1 || p.Files[0].Dst != test.want || p.Files[0].Path != file || !slices.Contains(p.Argv, test.want) {
			t.Errorf("%s as %q: %+v, %v", test.file, test.lang, p, err)
		}
	}
}
