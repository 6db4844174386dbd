//go:build linux

package debian

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/flock"
	"github.com/belljar/belljar/test/need"
)

func TestCheck(t *testing.T) {
	for name, o := range map[string]Options{
		"no name":        {},
		"unknown":        {Name: "cobol"},
		"suite":          {Name: "shell", Suite: "--hook=x"},
		"suite of words": {Name: "shell", Suite: "book worm"},
		"mirror":         {Name: "shell", Mirror: "mirror.example"},
		"mirror option":  {Name: "shell", Mirror: "http://x/ [trusted=yes]"},
		"package":        {Name: "shell", Packages: []string{"git;reboot"}},
		"package flag":   {Name: "shell", Packages: []string{"git", "-x"}},
		"mirror flag":    {Name: "shell", Mirror: "--format=null"},
	} {
		if _, _, err := o.check(); belljar.CodeOf(err) != belljar.CodeInvalidRequest || belljar.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range Names() {
		o := Options{Name: name, Packages: []string{"g++", "libxml2"}, Suite: "trixie", Mirror: "http://localhost:1/debian"}
		r, sources, err := o.check()
		if err != nil || len(sources) != 1 || sources[0].String() != "deb http://localhost:1/debian trixie main" || !strings.Contains(r.all(), ",g++,libxml2,") {
			t.Errorf("%s: %v, %v", name, sources, err)
		}
	}
}

func TestJournal(t *testing.T) {
	var printed []string
	j := newJournal(func(line string) { printed = append(printed, line) })
	for _, part := range []string{"I: one\nI: ", "two\n", "5%\r10%\r100%\n\n", "E: bad\nI: after\nE: failed\nun", strings.Repeat("x", 9999)} {
		if _, err := io.WriteString(j, part); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(printed, "|"); got != "I: one|I: two|100%|E: bad|I: after|E: failed" {
		t.Errorf("%q", got)
	}
	if got := j.reason(); got != "bad" {
		t.Errorf("%q", got)
	}
	for range 3 * keptLines {
		io.WriteString(j, "line\n")
	}
	if n := len(j.last()); n != keptLines {
		t.Errorf("%d lines", n)
	}
}

// stub replaces mmdebstrap by a shell script, which is the only program on the path.
func stub(t *testing.T, script string) {
	t.Helper()
	need.Root(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mmdebstrap"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

// empty checks that nothing is left in a folder.
func empty(t *testing.T, dir string) {
	t.Helper()
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("left over: %v, %v", list, err)
	}
}

func TestBuild(t *testing.T) {
	stub(t, `echo "I: working" >&2; root="$TMPDIR/root"; mkdir -p "$root/usr/bin" "$root/tmp" "$root/var/lib/apt"; echo "of the image" >"$root/tmp/apt.conf"
for a in "$@"; do echo "$a"; case $a in --customize-hook=*) /bin/sh -c "${a#*=}" sh "$root" || exit;; esac; done; cat "$root/tmp/apt.conf"; ls "$root/var/lib"`)
	var out bytes.Buffer
	var log []string
	dir := t.TempDir()
	err := Build(t.Context(), Options{Name: "python", Suite: "trixie", Mirror: "http://m/debian", Dir: dir, Log: func(s string) { log = append(log, s) }}, &out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"--mode=root\n", "--skip=cleanup/apt\n", "--include=python3,ca-certificates,netbase", "\ntrixie\n-\ndeb http://m/debian trixie main\n", "usr/bin/python",
		"main\nof the image\n", // nothing follows: package tools are removed, and so is the apt configuration of the build
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
	if len(log) != 1 || log[0] != "I: working" {
		t.Errorf("%q", log)
	}
	empty(t, dir)
}

func TestBuildFails(t *testing.T) {
	stub(t, `echo "I: working" >&2; echo half; : >"$TMPDIR/scratch"; echo "E: no space" >&2; exit 3`)
	dir := t.TempDir()
	err := Build(t.Context(), Options{Name: "shell", Mirror: "http://m/debian", Dir: dir}, io.Discard)
	if belljar.CodeOf(err) != belljar.CodeImageUnavailable || !strings.Contains(err.Error(), "no space") || belljar.HintOf(err) == "" {
		t.Errorf("%v", err)
	}
	empty(t, dir)
}

// If the reader of the tar stops, so does the tool.
func TestBuildWithoutReader(t *testing.T) {
	stub(t, `yes`)
	r, w := io.Pipe()
	gone := errors.New("gone")
	r.CloseWithError(gone)
	dir := t.TempDir()
	if err := Build(t.Context(), Options{Name: "shell", Mirror: "http://m/debian", Dir: dir}, w); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	empty(t, dir)
}

func TestBuildEnds(t *testing.T) {
	for name, script := range map[string]string{
		"at SIGTERM":   `trap 'rm "$TMPDIR/scratch"; exit 1' TERM; : >"$TMPDIR/scratch"; echo ready >&2; while :; do /bin/sleep 0.01; done`,
		"with a crowd": `for i in 1 2 3; do /bin/sleep 1000 & done; echo ready >&2; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			stub(t, script)
			ctx, cancel := context.WithCancelCause(t.Context())
			stopped := errors.New("stopped")
			dir := t.TempDir()
			err := Build(ctx, Options{Name: "shell", Mirror: "http://m/debian", Dir: dir, Log: func(string) { cancel(stopped) }}, io.Discard)
			if !errors.Is(err, stopped) {
				t.Errorf("%v", err)
			}
			empty(t, dir)
		})
	}
}

// A build removes the remains of killed builds, but nothing that may be in use.
func TestBuildSweeps(t *testing.T) {
	stub(t, ":")
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	left := func(name string, at time.Time) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Join(path, "root/usr"), 0o755), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	killed, used, young, other := left("belljar-image-1", old), left("belljar-image-2", old), left("belljar-image-3", time.Now()), left("other-4", old)
	foreign := left("belljar-image-5", old)
	f, err := os.Open(used)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(flock.Try(f, true), os.Chown(foreign, 12345, 12345), os.Symlink(other, filepath.Join(dir, "belljar-image-6"))); err != nil {
		t.Fatal(err)
	}
	if err := Build(t.Context(), Options{Name: "shell", Mirror: "http://m/debian", Dir: dir}, io.Discard); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{killed: false, used: true, young: true, other: true, foreign: true} {
		if _, err := os.Stat(filepath.Join(path, "root/usr")); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Files that cannot be removed are reported with their path.
func TestBuildLeaves(t *testing.T) {
	stub(t, "echo ready >&2")
	dir := t.TempDir()
	var held string
	err := Build(t.Context(), Options{Name: "shell", Mirror: "http://m/debian", Dir: dir, Log: func(string) {
		list, err := os.ReadDir(dir)
		if err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
			return
		}
		held = filepath.Join(dir, list[0].Name(), "held")
		if err := os.Mkdir(held, 0o755); err != nil {
			t.Error(err)
		}
		if err := syscall.Mount("held", held, "tmpfs", 0, ""); err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = syscall.Unmount(held, syscall.MNT_DETACH) })
	}}, io.Discard)
	if belljar.CodeOf(err) != belljar.CodeInternal || !strings.Contains(err.Error(), filepath.Dir(held)) || belljar.HintOf(err) == "" {
		t.Errorf("%v", err)
	}
}

func TestNoTool(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := pick(t.TempDir())
	if belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable || belljar.HintOf(err) == "" {
		t.Errorf("%v", err)
	}
}

// A digest changes with every option that an image depends on.
func TestDigest(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range []Options{
		{Name: "shell"}, {Name: "python"}, {Name: "shell", Packages: []string{"git"}}, {Name: "shell", Packages: []string{"git", "curl"}}, {Name: "shell", Suite: "trixie"},
		{Name: "shell", Mirror: "https://other.example/debian"},
	} {
		if o.Mirror == "" {
			o.Mirror = "https://mirror.example/debian"
		}
		d, err := Digest(o)
		if again, _ := Digest(o); err != nil || seen[d] || again != d {
			t.Errorf("%+v: %s, %s, %v", o, d, again, err)
		}
		seen[d] = true
	}
	if _, err := Digest(Options{Name: "nothing"}); err == nil {
		t.Error("a digest of no image")
	}
}
