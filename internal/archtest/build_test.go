//go:build linux

package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository is the path of a file of the repository.
func repository(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// source is the text of a file of the repository.
func source(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(repository(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// stubs makes a folder of shell scripts, by name, and returns it. With links to programs of the machine it can be a whole PATH.
func stubs(t *testing.T, scripts map[string]string, links ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range links {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run runs a command in a folder with one PATH.
func run(t *testing.T, dir, path string, command ...string) (output string, ok bool) {
	t.Helper()
	c := exec.CommandContext(t.Context(), command[0], command[1:]...)
	c.Dir, c.Env = dir, append(os.Environ(), "PATH="+path, "MAKEFLAGS=", "GOFLAGS=")
	out, err := c.CombinedOutput()
	return string(out), err == nil
}

// TestNode: make test names the versions of Node that the web page builds with, ahead of the first error of a build.
func TestNode(t *testing.T) {
	for version, fits := range map[string]bool{
		"v18.20.4": false, "v20.18.3": false, "v20.19.0": true, "v21.7.3": false, "v22.11.0": false, "v22.12.0": true, "v24.0.1": true, "": false,
	} {
		scripts := map[string]string{"npm": ""}
		if version != "" {
			scripts["node"] = "echo " + version
		}
		out, ok := run(t, t.TempDir(), stubs(t, scripts, "dirname"), repository(t, ".ci/node"))
		named := strings.Contains(out, "Node 20.19 and later, or 22.12 and later; here is "+version)
		if ok != fits || named == fits {
			t.Errorf("%q: %v, %s", version, ok, out)
		}
	}
	recipe, _, _ := strings.Cut(source(t, "Makefile")[strings.Index(source(t, "Makefile"), "\ntest-here:"):], "sdk")
	if !strings.Contains(recipe, " node\n") {
		t.Errorf("make test builds the SDK ahead of the check of Node:%s", recipe)
	}
}
