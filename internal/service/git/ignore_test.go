package git

import (
	"errors"
	"strings"
	"testing"
)

func TestIgnore(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		out  string // ignored, each followed by a space
		kept string
	}{
		"names":     {"node_modules\n/dist/\n./a\n", "node_modules node_modules/x/y dist dist/z a ", "src/node_modules adist node_modules2 "},
		"comments":  {"# a\n\n  b  \r\n#!c\n", "b ", "a c "},
		"stars":     {"*.log\ntmp?\nsrc/*/gen", "x.log tmp1 src/a/gen src/a/gen/b ", "a/x.log tmp tmp12 src/a/b/gen src/gen "},
		"any depth": {"**/*.pyc\nout/**\n**/x/**/y", "a.pyc b/c/d.pyc out/a out/b/c x/y q/x/a/b/y ", "out2 y x a.py "},
		"again":     {"*.md\n!README.md\nREADME*.txt\n", "x.md README1.txt ", "README.md "},
		"all but":   {"*\n!src\n!*.go\nsrc/x", "a a/b src/x src/x/y ", "src src/y main.go "},
		"sets":      {"[ab].c\n[^x].h\n[0-9][0-9]\n", "a.c b.c y.h 42 ", "c.c x.h 4 "},
		"escapes":   {"\\*.c\na\\[b\nc+d(e)$\n", "*.c a[b c+d(e)$ ", "x.c ccd "},
		"nothing":   {"/\n.\n\n", "", ". a "},
		"braces":    {"{a,b}\n", "{a,b} ", "a b "},
		"lines":     {"*\\\nb.c", "", ""},
	} {
		list, err := parseIgnore(tt.file)
		if name == "lines" {
			if err == nil || !strings.Contains(err.Error(), "line 1") {
				t.Errorf("%v", err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for want, names := range map[bool]string{true: tt.out, false: tt.kept} {
			for path := range strings.FieldsSeq(names) {
				if got, err := list.ignored(path); got != want || err != nil {
					t.Errorf("%s: %s is %v, %v", name, path, got, err)
				}
			}
		}
	}
	var none *ignore
	if out, err := none.ignored("a"); out || err != nil {
		t.Errorf("%v %v", out, err)
	}
}

// Invalid ignore files are refused, and so is one that takes too long, whatever its patterns consist of.
func TestIgnoreIsBounded(t *testing.T) {
	for _, bad := range []string{"[a", "[]", "[z-a]", strings.Repeat("a\n", mostPatterns+1)} {
		if _, err := parseIgnore(bad); err == nil {
			t.Errorf("%.10q was accepted", bad)
		}
	}
	name := strings.Repeat("a", 96)
	for _, pattern := range []string{strings.Repeat("*a", 28) + "b", "*" + strings.Repeat("a", 31) + "b", strings.Repeat("*?", 28) + "b"} {
		list, err := parseIgnore(strings.Repeat(pattern+"\n", mostPatterns))
		if err != nil {
			t.Fatal(err)
		}
		list.left /= 5000 // a name takes longer than that
		for n := 0; err == nil && n < 10; n++ {
			_, err = list.ignored(name)
		}
		if !errors.Is(err, errComparison) {
			t.Errorf("%.10q: %v", pattern, err)
		}
	}
}

// FuzzIgnore: any file is parsed or refused, and any name compared.
func FuzzIgnore(f *testing.F) {
	f.Add("*.log\n!a\n**/b\n[c-d]\n", "x/y.log")
	f.Add("a\\*b\n\\\\\n[^]]\n", "a*b")
	f.Fuzz(func(t *testing.T, file, name string) {
		list, err := parseIgnore(file)
		if err != nil {
			return
		}
		if _, err := list.ignored(name); err != nil && !errors.Is(err, errComparison) {
			t.Error(err)
		}
	})
}
