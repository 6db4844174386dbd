package template

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/local"
)

// build is belljar template build.
type build struct {
	File    string `arg:"" help:"The template's file, in YAML or JSON."`
	Name    string `placeholder:"NAME" help:"Name of the template (default: name in the file, or the file's name)."`
	Shared  bool   `help:"Make it a template of all users (operators only)."`
	Rebuild bool   `help:"Build it, and the image of its recipe, even if nothing has changed."`
	Quiet   bool   `short:"q" help:"No progress, and no output of its commands."`
	JSON    bool   `name:"json" help:"Print the template as one JSON object."`
}

// Help shows an example of a template's file.
func (*build) Help() string {
	return `Such a file, data-science.yaml:

  recipe: python                # an image of Debian packages, made here; or base_image: python:3.11-slim
  packages: {apt: [git, python3-pandas]}
  files: {app: ./app}           # in /workspace: what is here
  env: {MPLBACKEND: Agg}
  run: [python3 -m compileall -q app]
  start: [python3 -m http.server -d app 8000 &]`
}

// Run builds a template.
func (b *build) Run(ctx context.Context, c Console) error {
	return c.Remote(func(s belljar.Service) error {
		c.Images().Writer.Quiet = b.Quiet
		f, err := read(b.File)
		if err != nil {
			return err
		}
		if b.Name != "" {
			f.Name = b.Name
		}
		f.Shared, f.Rebuild = f.Shared || b.Shared, f.Rebuild || b.Rebuild
		begun := time.Now()
		ctx, stopped := interrupt.Context(ctx)
		made, err := b.build(ctx, c, s, f)
		err = stopped(err)
		switch {
		case err != nil:
			return explained(err)
		case b.JSON:
			return show.JSON(c.Out(), made)
		}
		line := fmt.Sprintf("%s  %s  %d files, %s", made.Name, made.SnapshotDigest, made.Files, show.Bytes(made.Bytes))
		if made.BuiltAt.Before(begun.Add(-time.Minute)) {
			line += "  as it was built " + show.RoughDuration(time.Since(made.BuiltAt)) + " ago"
		}
		return show.Lines(c.Out(), []string{line})
	})
}

// build makes the image, sends the files, and makes the server build the template.
func (b *build) build(ctx context.Context, c Console, s belljar.Service, f *file) (made belljar.Template, err error) {
	files, err := f.upload(b.File)
	if err != nil {
		return made, err
	}
	defer files.Close()
	if f.Recipe != "" {
		if f.BaseImage, err = makeImage(ctx, c, s, f); err != nil {
			return made, err
		}
		f.Packages.Apt = nil
	}
	if err := f.Validate(); err != nil {
		return made, err
	}
	if tar := files.Reader(); tar != nil {
		defer tar.Close()
		sent, err := s.Snapshots().Import(ctx, belljar.SnapshotSpec{Name: "files of template " + f.Name}, tar)
		if err != nil {
			return made, mistake.In(b.File, err)
		}
		f.Snapshot = sent.ID
		defer func() { // the template keeps the files
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			err = errors.Join(err, s.Snapshots().Remove(ctx, sent.ID))
		}()
	}
	if b.Quiet {
		return s.Templates().Build(ctx, f.TemplateSpec)
	}
	p := &progress{w: c.Images().Writer, s: s, name: f.Name}
	built, followed := make(chan struct{}), make(chan struct{})
	go func() {
		p.follow(ctx, built)
		close(followed)
	}()
	made, err = s.Templates().Build(ctx, f.TemplateSpec)
	close(built)
	<-followed
	p.rest(ctx, made, err)
	return made, err
}

// makeImage makes the image of a recipe, unless the server has it, and returns its name.
func makeImage(ctx context.Context, c Console, s belljar.Service, f *file) (string, error) {
	if err := c.Images().Check(f.Recipe); err != nil {
		return "", err
	}
	packages := slices.Compact(slices.Sorted(slices.Values(f.Packages.Apt)))
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", f.Recipe, packages, f.Suite, f.Mirror))
	name := "belljar/template:" + f.Recipe + "-" + hex.EncodeToString(sum[:6])
	if _, err := s.Images().Get(ctx, name); err == nil && !f.Rebuild {
		return name, nil
	} else if err != nil && belljar.CodeOf(err) != belljar.CodeNotFound {
		return "", err
	}
	c.Images().Writer.Note("template %s: making the image of recipe %s", f.Name, f.Recipe)
	_, err := c.Images().Add(ctx, s.Images(), name, local.Build{Recipe: f.Recipe, Packages: packages, Suite: f.Suite, Mirror: f.Mirror})
	return name, err
}

// explained adds the last line of a failed command's output to its error.
func explained(err error) error {
	var e *belljar.Error
	if !errors.As(err, &e) {
		return err
	}
	out, _ := e.Details["output"].(string)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		more := *e
		more.Message += ": " + last
		return &more
	}
	return err
}
