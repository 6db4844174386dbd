package template

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/image"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/notice"
)

// server records the requests of a build.
type server struct {
	belljar.Service
	images    map[string]string // contents by name
	snapshots []string          // those that it has
	built     []belljar.TemplateSpec
	fail      error
	stop      func() // interrupts a build
}

func (s *server) Images() belljar.Images       { return images{s: s} }
func (s *server) Snapshots() belljar.Snapshots { return snapshots{s: s} }
func (s *server) Templates() belljar.Templates { return templates{s: s} }

type images struct {
	belljar.Images
	s *server
}

func (i images) Get(_ context.Context, ref string) (belljar.Image, error) {
	if _, ok := i.s.images[ref]; ok {
		return belljar.Image{Ref: ref}, nil
	}
	return belljar.Image{}, &belljar.Error{Code: belljar.CodeNotFound}
}

func (i images) Import(_ context.Context, name string, r io.Reader, _ func(belljar.ImageProgress)) (belljar.Image, error) {
	text, err := io.ReadAll(r)
	i.s.images[name] = string(text)
	return belljar.Image{Ref: name}, err
}

type snapshots struct {
	belljar.Snapshots
	s *server
}

func (x snapshots) Import(_ context.Context, _ belljar.SnapshotSpec, r io.Reader) (belljar.Snapshot, error) {
	_, err := io.Copy(io.Discard, r)
	x.s.snapshots = append(x.s.snapshots, "sent")
	return belljar.Snapshot{ID: "sent"}, err
}

func (x snapshots) Remove(_ context.Context, id string) error {
	x.s.snapshots = slices.DeleteFunc(x.s.snapshots, func(s string) bool { return s == id })
	return nil
}

type templates struct {
	belljar.Templates
	s *server
}

func (x templates) Build(ctx context.Context, spec belljar.TemplateSpec) (belljar.Template, error) {
	x.s.built = append(x.s.built, spec)
	if x.s.stop != nil {
		x.s.stop()
		<-ctx.Done()
		return belljar.Template{}, ctx.Err()
	}
	return belljar.Template{TemplateSpec: spec}, x.s.fail
}

// machine makes an image whose content is the request.
type machine struct {
	local.ImageMaker
	made int
}

func (*machine) Recipes() []string { return []string{"shell", "python"} }
func (m *machine) Build(_ context.Context, b local.Build, w io.Writer) error {
	m.made++
	_, err := io.WriteString(w, b.Recipe+" "+strings.Join(b.Packages, " "))
	return err
}

type console struct {
	*server
	*machine
	out, notes bytes.Buffer
}

func (c *console) Remote(do func(belljar.Service) error) error { return do(c.server) }
func (c *console) Images() image.Maker {
	return image.Maker{Machine: c.machine, Writer: &notice.Writer{Stderr: &c.notes}}
}
func (c *console) Out() io.Writer { return &c.out }

// Debian's packages are in an image that is made on this machine once. The other fields go to the
// server.
func TestBuild(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "science.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("science.yaml", "recipe: python\npackages: {apt: [libxml2, git, git], pip: [pandas]}\nfiles: {app/x: x}\nenv: {A: b}\n")
	write("x", "text")
	c := &console{server: &server{images: map[string]string{}}, machine: &machine{}}
	for range 2 {
		if err := (&build{File: file}).Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	spec := c.built[1]
	if spec.Name != "science" || !strings.HasPrefix(spec.BaseImage, "belljar/template:python-") || len(spec.Packages.Apt) > 0 || spec.Packages.Pip[0] != "pandas" ||
		spec.Snapshot != "sent" || spec.Env["A"] != "b" {
		t.Errorf("%+v", spec)
	}
	if got := c.images[spec.BaseImage]; got != "python git libxml2" || c.made != 1 || len(c.snapshots) > 0 {
		t.Errorf("image %q, made %d times; snapshots %v left", got, c.made, c.snapshots)
	}
	if got := c.notes.String(); got != "belljar: template science: making the image of recipe python\n" {
		t.Errorf("%q", got)
	}
	write("science.yaml", "packages: {apt: [git]}\n") // of the shell
	c.fail = errors.New("it fails")
	if err := (&build{File: file, Name: "other", Shared: true, Rebuild: true}).Run(t.Context(), c); !errors.Is(err, c.fail) {
		t.Error(err)
	}
	if got := c.built[2]; got.Name != "other" || !got.Shared || !got.Rebuild || c.images[got.BaseImage] != "shell git" || len(c.snapshots) > 0 {
		t.Errorf("%+v", got)
	}
	c.stop = func() {
		self, err := os.FindProcess(os.Getpid())
		if err = errors.Join(err, self.Signal(syscall.SIGHUP)); err != nil {
			t.Fatal(err)
		}
	}
	write("science.yaml", "recipe: shell\nfiles: {app/x: x}\n")
	var status interrupt.Status
	if err := (&build{File: file}).Run(t.Context(), c); !errors.As(err, &status) || status != 129 || len(c.snapshots) > 0 {
		t.Errorf("the terminal ends: %v; snapshots %v left", err, c.snapshots)
	}
}

// A date in the file reaches the server as it is written.
func TestDate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(file, []byte("base_image: host\nenv: {DAY: &d 2026-07-01, AT: 2026-07-01 10:00:00, AGAIN: *d}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := read(file)
	if err != nil || f.Env["DAY"] != "2026-07-01" || f.Env["AT"] != "2026-07-01 10:00:00" || f.Env["AGAIN"] != "2026-07-01" {
		t.Errorf("%v, %v", f, err)
	}
}

func TestBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "neither base_image nor recipe",
		"- a\n":                             "must have fields",
		"run: [a]\nname: b\nrun: [c]\n":     `line 3: mapping key "run" already defined at line 1`,
		"a: [b\n":                           "line 1",
		"base_image: host\ncolour: red\n":   `unknown field "colour"`,
		"base_image: host\nrun: make\n":     "run has a value that is a string, and must be a list",
		"base_image: host\nenv: {A: 1}\n":   "must be a text",
		"base_image: host\nresources: 5\n":  "must be a map",
		"base_image: host\nrecipe: shell\n": "recipe makes the image",
		"base_image: host\npackages: {apt: [git]}\n":       "packages.apt belong into an image",
		"base_image: host\nsuite: trixie\n":                "suite and mirror are of a recipe",
		"recipe: shell\npackages: {apt: ['git;reboot']}\n": "is not the name of a Debian package",
		"base_image: host\nsnapshot: x\nfiles: {a: b}\n":   "the files of snapshot, or with those of files",
	} {
		file := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := read(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
