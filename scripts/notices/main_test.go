package main

import (
	"debug/buildinfo"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/need"
)

var built build.Programs

func TestMain(m *testing.M) {
	os.Exit(build.Main(func(_ string, p build.Programs) int {
		built = p
		return m.Run()
	}))
}

// notices returns what run writes for folders.
func notices(t *testing.T, folders ...string) (string, error) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "notices")
	failed := run(out, folders)
	text, err := os.ReadFile(out)
	if err != nil && failed == nil {
		t.Fatal(err)
	}
	return string(text), failed
}

// TestModules: each module that Go records in the programs has an entry.
func TestModules(t *testing.T) {
	text, err := notices(t, "../../cmd", "../../gvisor")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{built.Belljar, "../../bin/belljar-runsc"} {
		info, err := buildinfo.ReadFile(program)
		if errors.Is(err, os.ErrNotExist) && program != built.Belljar {
			need.Missing(t, "%v: make gvisor", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, module := range info.Deps {
			for module.Replace != nil {
				module = module.Replace
			}
			if !strings.Contains(text, "\n"+module.Path+" "+module.Version+"\n") {
				t.Errorf("%s %s, a part of %s, has no entry", module.Path, module.Version, program)
			}
		}
	}
	if !strings.Contains(text, "\nThe standard library of Go\n\nCopyright") {
		t.Error("the standard library has no entry")
	}
}

func TestPackages(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"package-lock.json": `{"packages": {"": {}, "node_modules/@a/b": {"version": "1.2.3"},
			"node_modules/c": {"version": "2.0.0"}, "node_modules/d": {"version": "3.0.0", "dev": true}}}`,
		"node_modules/@a/b/LICENSE.md": "B's licence", "node_modules/@a/b/NOTICE": "B's notice", "node_modules/c/package.json": `{"license": "MIT"}`,
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := notices(t, dir)
	if err != nil || !strings.Contains(text, "\n@a/b 1.2.3\n\nB's licence\n\nB's notice\n") || !strings.Contains(text, "\nc 2.0.0\n\n{\"license\"") ||
		strings.Contains(text, "d 3") {
		t.Errorf("%v\n%s", err, text)
	}
	if err := os.Remove(filepath.Join(dir, "node_modules/c/package.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := notices(t, dir); err == nil || !strings.Contains(err.Error(), "c 2.0.0: it has no licence") {
		t.Errorf("a part without a licence: %v", err)
	}
}
