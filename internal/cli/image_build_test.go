package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/daemon"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/notice"
)

// fakeImages is an image store that only records calls.
type fakeImages struct {
	belljar.Images
	name    string
	content string
	aliases []string
	err     error
}

func (a *fakeImages) Import(_ context.Context, name string, r io.Reader, _ func(belljar.ImageProgress)) (belljar.Image, error) {
	text, err := io.ReadAll(r)
	a.name, a.content = name, string(text)
	return belljar.Image{Ref: name, Digest: "sha256:1", Bytes: int64(len(text))}, errors.Join(err, a.err)
}

func (a *fakeImages) Tag(_ context.Context, ref, name string) (belljar.Image, error) {
	a.aliases = append(a.aliases, name)
	return belljar.Image{Ref: ref, Names: append([]string{ref}, a.aliases...), Digest: "sha256:1"}, a.err
}

// fakeBootstrap replaces mmdebstrap by a script. It returns the folder for temporary files.
func fakeBootstrap(t *testing.T, script string) string {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("without root on Linux, it depends on the machine whether images can be built")
	}
	dir, scratch := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mmdebstrap"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	t.Setenv("TMPDIR", scratch)
	return scratch
}

func TestImageBuild(t *testing.T) {
	for name, c := range map[string]struct {
		command imageBuild
		want    string // expected on stdout
		name    string
		aliases string
	}{
		"plain":   {imageBuild{Mirror: "http://m/debian", Recipe: "shell"}, "belljar/shell  sha256:1  8 B\n", "belljar/shell", ""},
		"names":   {imageBuild{Mirror: "http://m/debian", Recipe: "python", Name: "py", Alias: []string{"python:3.11-slim", "python"}}, "py python:3.11-slim python  sha256:1  0 B\n", "py", "python:3.11-slim python"},
		"a tar":   {imageBuild{Mirror: "http://m/debian", Recipe: "shell", Output: "-"}, "contents", "", ""},
		"as json": {imageBuild{Mirror: "http://m/debian", Recipe: "shell", JSON: true}, "", "belljar/shell", ""},
	} {
		t.Run(name, func(t *testing.T) {
			scratch := fakeBootstrap(t, `printf contents; echo "I: working" >&2`)
			var out, output bytes.Buffer
			a := &fakeImages{}
			err := c.command.build(t.Context(), &console{machine: daemon.New(daemon.Options{}), stdout: &out, Writer: notice.Writer{Stderr: &output}}, func(do func(belljar.Images) error) error { return do(a) })
			if err != nil {
				t.Fatal(err)
			}
			if c.command.JSON {
				var image belljar.Image
				if err := json.Unmarshal(out.Bytes(), &image); err != nil || image.Digest != "sha256:1" {
					t.Errorf("%s: %v", out.String(), err)
				}
			} else if out.String() != c.want {
				t.Errorf("%q, want %q", out.String(), c.want)
			}
			if a.name != c.name || c.name != "" && a.content != "contents" || strings.Join(a.aliases, " ") != c.aliases {
				t.Errorf("%+v", a)
			}
			if output.Len() > 0 {
				t.Errorf("printed in a pipe: %q", output.String())
			}
			if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

func TestImageBuildToFile(t *testing.T) {
	fakeBootstrap(t, "printf contents")
	file := filepath.Join(t.TempDir(), "shell.tar")
	b := imageBuild{Mirror: "http://m/debian", Recipe: "shell", Output: file}
	if err := b.build(t.Context(), &console{machine: daemon.New(daemon.Options{}), stdout: io.Discard, Writer: notice.Writer{Stderr: io.Discard}}, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "contents" {
		t.Errorf("%q, %v", got, err)
	}
	if list, err := os.ReadDir(filepath.Dir(file)); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestImageBuildFails(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		command    imageBuild
		script     string
		fakeImages fakeImages
		want       string
	}{
		"unknown":       {imageBuild{Mirror: "http://m/debian", Recipe: "cobol"}, "", fakeImages{}, "no recipe"},
		"file and name": {imageBuild{Mirror: "http://m/debian", Recipe: "shell", Output: "x", Name: "y"}, "", fakeImages{}, "do not go with it"},
		"no folder":     {imageBuild{Mirror: "http://m/debian", Recipe: "shell", Output: "/no/such/folder/x.tar"}, "", fakeImages{}, "no such file"},
		"a bad name":    {imageBuild{Mirror: "http://m/debian", Recipe: "shell", Name: "a b"}, "echo 'E: it is built' >&2; exit 1", fakeImages{}, `cannot be called "a b"`},
		"a bad alias":   {imageBuild{Mirror: "http://m/debian", Recipe: "shell", Alias: []string{"host"}}, "echo 'E: it is built' >&2; exit 1", fakeImages{}, `cannot be called "host"`},
		"the tool":      {imageBuild{Mirror: "http://m/debian", Recipe: "shell"}, "echo 'E: no network' >&2; exit 1", fakeImages{}, "no network"},
		"the import":    {imageBuild{Mirror: "http://m/debian", Recipe: "shell"}, "echo", fakeImages{err: refused}, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			scratch := fakeBootstrap(t, c.script)
			var out bytes.Buffer
			err := c.command.build(t.Context(), &console{machine: daemon.New(daemon.Options{}), stdout: &out, Writer: notice.Writer{Stderr: io.Discard}}, func(do func(belljar.Images) error) error { return do(&c.fakeImages) })
			if err == nil || !strings.Contains(err.Error(), c.want) || out.Len() > 0 {
				t.Errorf("%v, %q", err, out.String())
			}
			if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

// TestImageBuildStopped: an interruption ends the build command, and belljar returns its error.
func TestImageBuildStopped(t *testing.T) {
	scratch := fakeBootstrap(t, "echo half; sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	var output bytes.Buffer
	b := imageBuild{Mirror: "http://m/debian", Recipe: "shell", Output: "-"}
	err := b.build(ctx, &console{machine: daemon.New(daemon.Options{}), stdout: writer(func(p []byte) { cancel() }), Writer: notice.Writer{Stderr: &output}}, nil)
	if !errors.Is(err, context.Canceled) || !strings.Contains(output.String(), "nothing is left") {
		t.Errorf("%v, %q", err, output.String())
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// leaving is a machine whose builds are stopped, and leave files.
type leaving struct {
	local.Machine
	stop func()
	left error
}

func (leaving) Recipes() []string { return []string{"shell"} }

func (l leaving) Build(ctx context.Context, _ local.Build, _ io.Writer) error {
	l.stop()
	return errors.Join(context.Cause(ctx), l.left)
}

// TestImageBuildLeaves: a stopped build that leaves files prints their place, and does not claim
// that none are left.
func TestImageBuildLeaves(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var output bytes.Buffer
	b := imageBuild{Recipe: "shell", Output: "-"}
	left := &belljar.Error{Code: belljar.CodeInternal, Message: "files are left in /tmp/x", Hint: "remove that folder"}
	err := b.build(ctx, &console{machine: leaving{stop: cancel, left: left}, stdout: io.Discard, Writer: notice.Writer{Stderr: &output}}, nil)
	if want := "belljar: files are left in /tmp/x\nhint: remove that folder\n"; !errors.Is(err, context.Canceled) || output.String() != want {
		t.Errorf("%v, %q", err, output.String())
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}
