//go:build linux

package archtest

import (
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
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
	// A make around this test hands down its variables.
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "COMMIT=") })
	c.Dir, c.Env = dir, append(inherited, "PATH="+path, "MAKEFLAGS=", "GOFLAGS=", "GO=go")
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

// TestGo: the documents name the version of Go that go.mod needs.
func TestGo(t *testing.T) {
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(source(t, "go.mod"))
	if version == nil {
		t.Fatal("go.mod names no version of Go")
	}
	for _, page := range []string{"README.md", "CONTRIBUTING.md"} {
		if !strings.Contains(source(t, page), "Linux and Go "+version[1]+".") {
			t.Errorf("%s does not name Go %s", page, version[1])
		}
	}
}

// TestCheckSpec: make check finds a stale document of the REST API. The other generated files of Go are in its units.
func TestCheckSpec(t *testing.T) {
	_, recipe, _ := strings.Cut(source(t, "Makefile"), "\ncheck:")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	if !strings.Contains(recipe, "./internal/api/rest -run 'TestSpec$$'") {
		t.Errorf("make check does not compare spec/openapi.yaml:%s", recipe)
	}
}

// TestFuzzEnds: the nightly workflow has time for each fuzz target, and half a minute more for its compilation.
func TestFuzzEnds(t *testing.T) {
	_, job, _ := strings.Cut(source(t, ".github/workflows/nightly.yml"), "\n  fuzz:\n")
	found := regexp.MustCompile(`(?s)timeout-minutes: (\d+)\n.*?make fuzz FUZZTIME=(\w+)`).FindStringSubmatch(job)
	if found == nil {
		t.Fatalf("the workflow no longer limits the time of make fuzz:\n%s", job)
	}
	minutes, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	each, err := time.ParseDuration(found[2])
	if err != nil {
		t.Fatal(err)
	}
	targets := 0
	for _, p := range tree(t) {
		for _, f := range p.files {
			for name := range f.syntax.Scope.Objects {
				if f.test && strings.HasPrefix(name, "Fuzz") {
					targets++
				}
			}
		}
	}
	need, limit := time.Duration(targets)*(each+30*time.Second), time.Duration(minutes)*time.Minute
	if targets < 50 || need > limit {
		t.Errorf("%d targets of %v take %v, and the job ends after %v", targets, each, need, limit)
	}
}

// TestFuzzFails: make fuzz fails if packages or targets cannot be listed, and if a target fails.
func TestFuzzFails(t *testing.T) {
	const fine = `case $* in list*) echo a; echo b;; *-list*b) echo FuzzB; echo ok;; esac`
	for name, c := range map[string]struct {
		goTool string
		ok     bool
	}{
		"fine":                             {fine, true},
		"packages cannot be listed":        {`case $1 in list) exit 1;; esac`, false},
		"a package does not compile":       {`case $* in list*) echo a; echo b;; *-list*a) echo broken; exit 1;; esac`, false},
		"a target finds what it looks for": {fine + `; case $* in *-fuzz*) exit 1;; esac`, false},
	} {
		path := stubs(t, map[string]string{"go": c.goTool}) + ":" + os.Getenv("PATH")
		if out, ok := run(t, repository(t, "."), path, "make", "-s", "fuzz"); ok != c.ok || c.ok && !slices.Contains(strings.Split(out, "\n"), "b FuzzB") {
			t.Errorf("%s: %v\n%s", name, ok, out)
		}
	}
}

// TestWholeSoak: make soak runs the tests that are not compiled with the race detector, which it has on for the rest.
func TestWholeSoak(t *testing.T) {
	_, recipe, _ := strings.Cut(source(t, "Makefile"), "\nsoak-here:")
	if recipe, _, _ = strings.Cut(recipe, "\n\n"); !strings.Contains(recipe, " soak-unraced ") {
		t.Errorf("make soak leaves out the files without the race detector:%s", recipe)
	}
	run, ok := run(t, repository(t, "."), os.Getenv("PATH"), "make", "-s", "soak-unraced", "GO=echo")
	if !ok || !strings.Contains(run, " -tags soak ") || strings.Contains(run, " -race ") {
		t.Fatalf("make soak-unraced: %s", run)
	}
	found := 0
	for _, p := range tree(t) {
		for _, f := range p.files {
			if !f.test || !strings.Contains(source(t, f.name), "!race\n") {
				continue
			}
			for name, object := range f.syntax.Scope.Objects {
				if object.Kind != ast.Fun || !strings.HasPrefix(name, "Test") {
					continue
				}
				found++
				if !strings.Contains(run, "^"+name+"$") || !strings.Contains(run, "./"+p.dir) {
					t.Errorf("make soak does not run %s of %s", name, f.name)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no file has the build tag !race")
	}
}

// TestFormat: make lint-quick checks the files of a source folder that git does not know, inside another repository or not, and
// fails without gofmt. The commit of another repository is not the program's.
func TestFormat(t *testing.T) {
	const fine, bad = "package x\n", "package   x\n"
	real, ok := run(t, ".", os.Getenv("PATH"), "go", "env", "GOROOT")
	if !ok {
		t.Fatal(real)
	}
	real = strings.TrimSpace(real)
	for _, c := range []struct {
		name, git, text, root string
		ok, commit            bool
	}{
		{"a clone", "git add .", fine, real, true, true},
		{"a clone, not formatted", "git add .", bad, real, false, true},
		{"a clone without a file", "git add .; rm gone.go", fine, real, true, true},
		{"in another repository", "git add other", fine, real, true, false},
		{"in another repository, not formatted", "git add other", bad, real, false, false},
		{"no gofmt", "git add .", fine, "/nowhere", false, true},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"Makefile": source(t, "Makefile"), "go.mod": "module x\n", "x.go": c.text, "gone.go": fine, "other": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		path := stubs(t, map[string]string{"go": `case $1 in env) echo ` + c.root + `;; esac`}) + ":" + os.Getenv("PATH")
		commit := "git init -q && " + c.git + " && git -c user.name=x -c user.email=x@example.com -c commit.gpgsign=false commit -qm x"
		if out, ok := run(t, dir, path, "sh", "-c", commit); !ok {
			t.Fatal(out)
		}
		if out, ok := run(t, dir, path, "make", "-s", "lint-quick"); ok != c.ok || strings.Contains(out, "x.go") != (c.text == bad) {
			t.Errorf("%s: %v\n%s", c.name, ok, out)
		}
		if out, ok := run(t, dir, path, "make", "-s", "--eval", "commit: ; @echo 'it is [$(COMMIT)]'", "commit"); !ok || strings.Contains(out, "[]") == c.commit {
			t.Errorf("%s: %s", c.name, out)
		}
	}
}

// TestPackageScripts: a systemctl that fails, as for a masked unit, does not break the installation or removal of a package.
func TestPackageScripts(t *testing.T) {
	path := stubs(t, map[string]string{"systemctl": "echo systemctl $*; exit 1"}) + ":" + os.Getenv("PATH")
	for script, want := range map[string]string{
		"postinstall.sh configure": "try-restart belljar.service",
		"preremove.sh remove":      "disable --now belljar.service",
		"preremove.sh 0":           "disable --now belljar.service",
		"postremove.sh purge":      "daemon-reload",
	} {
		name, argument, _ := strings.Cut(script, " ")
		// Without systemd the scripts do nothing; here its folder is one that exists.
		text := strings.ReplaceAll(source(t, "deploy/package/"+name), "/run/systemd/system", "/")
		if out, ok := run(t, t.TempDir(), path, "sh", "-c", text, name, argument); !ok || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", script, ok, out)
		}
	}
}

// TestLockedPackages: no package of npm comes without a lock file, and what packages the extension runs without the token that publishes.
func TestLockedPackages(t *testing.T) {
	for _, name := range []string{"Makefile", ".goreleaser.yaml", ".github/workflows/release.yml", ".github/workflows/test.yml", ".github/workflows/nightly.yml"} {
		if found := regexp.MustCompile(`\bnpx\b|\bnpm (install|i|exec)\b`).FindString(source(t, name)); found != "" {
			t.Errorf("%s calls %s, which resolves versions that no lock file names", name, found)
		}
	}
	if strings.Contains(source(t, ".goreleaser.yaml"), "- make vscode-package") {
		t.Error("goreleaser, which has the token, makes the extension")
	}
	steps := strings.Split(source(t, ".github/workflows/release.yml"), "\n      - ")
	made := slices.IndexFunc(steps, func(step string) bool { return strings.Contains(step, "make vscode-package ") })
	token := slices.IndexFunc(steps, func(step string) bool { return strings.Contains(step, "github.token") })
	kept := slices.IndexFunc(steps, func(step string) bool { return strings.Contains(step, "persist-credentials: false") })
	if made < 0 || kept < 0 || kept > made || token < made {
		t.Errorf("the release makes the extension in step %d, has the token in step %d, and its checkout without one is step %d", made, token, kept)
	}
}

// TestLicences: all that is published has the licence, and what contains software of others has their licences.
func TestLicences(t *testing.T) {
	for _, folder := range []string{"editors/vscode", "sdk/python", "sdk/typescript"} {
		if source(t, folder+"/LICENSE") != source(t, "LICENSE") {
			t.Errorf("%s has another licence", folder)
		}
	}
	// Two kinds of archives, the packages, the container image; the extension.
	for name, want := range map[string]int{".goreleaser.yaml": 4, "deploy/container/Dockerfile": 1, "editors/vscode/.vscodeignore": 1} {
		found := 0
		for line := range strings.Lines(source(t, name)) {
			if strings.Contains(line, "THIRD_PARTY_NOTICES") && strings.Contains(line, "LICENSE") ||
				strings.HasPrefix(strings.TrimLeft(line, " -"), "src: THIRD_PARTY_NOTICES") ||
				strings.HasSuffix(strings.TrimSpace(line), "- THIRD_PARTY_NOTICES") || strings.HasPrefix(line, "!dist/THIRD_PARTY_NOTICES") {
				found++
			}
		}
		if found != want {
			t.Errorf("%s names THIRD_PARTY_NOTICES for %d parts of a release, and has %d", name, found, want)
		}
	}
}
