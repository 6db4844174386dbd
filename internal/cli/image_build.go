package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/notice"
)

// imageBuild is belljar image build.
type imageBuild struct {
	Recipe  string   `arg:"" name:"recipe" help:"What to make: shell, python, node, go or java."`
	Name    string   `placeholder:"NAME" help:"What the image is called (default belljar/ and the recipe's name)."`
	Alias   []string `placeholder:"NAME" sep:"none" help:"One more name, which may be any that requests have: python:3.11-slim. May be given again."`
	Package []string `placeholder:"NAME" sep:"none" help:"One more Debian package in the image. May be given again."`
	Suite   string   `placeholder:"SUITE" help:"Debian release (default: this machine's, or bookworm if it is not Debian)."`
	Mirror  string   `placeholder:"URL" help:"Where the packages are (default: this machine's sources of that release, in /etc/apt)."`
	Output  string   `short:"o" placeholder:"FILE" help:"Write the root file system as tar, for image import elsewhere; - is stdout."`
	Quiet   bool     `short:"q" help:"No progress."`
	JSON    bool     `name:"json" help:"Print the image as JSON."`
}

// Help has the examples.
func (*imageBuild) Help() string {
	return `Makes an image of Debian packages on this machine, with mmdebstrap or debootstrap, where there is no registry to pull from.

Examples:
  belljar image build python --alias python:3.11-slim
  belljar image build python --package git --package python3-numpy --name team/science
  belljar image build node --suite trixie --alias node:20-alpine
  belljar image build shell --output shell.tar`
}

// check validates the flags.
func (b *imageBuild) check(c *console) error {
	if !slices.Contains(c.machine.Recipes(), b.Recipe) {
		return mistake.New("can be made: "+strings.Join(c.machine.Recipes(), ", "), "no recipe for %q", b.Recipe)
	}
	if b.Output != "" && (b.Name != "" || len(b.Alias) > 0 || b.JSON) {
		return mistake.New("image import FILE names it, image tag gives it more names", "--output makes a file and no image, so --name, --alias and --json do not go with it")
	}
	return nil
}

// Run builds an image, or a tar archive of one.
func (b *imageBuild) Run(ctx context.Context, c *console) error {
	err := b.build(ctx, c, func(do func(belljar.Images) error) error { return c.images(false, do) })
	var status exitStatus
	if err != nil && b.JSON && !errors.As(err, &status) {
		return c.failJSON(err)
	}
	return err
}

// build builds an image, or a tar archive of one. open provides the image store. An interrupted build leaves nothing.
func (b *imageBuild) build(ctx context.Context, c *console, open func(func(belljar.Images) error) error) error {
	c.Quiet = c.Quiet || b.Quiet
	if err := b.check(c); err != nil {
		return err
	}
	ctx, stopped := interruptible(ctx)
	var err error
	if b.Output != "" {
		err = b.write(ctx, c)
	} else { // opened before the build, so that a failure costs no build
		err = open(func(images belljar.Images) error { return b.add(ctx, c, images) })
	}
	if err != nil && ctx.Err() != nil {
		c.Note("stopped, nothing is left of image %s", b.Recipe)
	}
	return stopped(err)
}

// write writes the tar file atomically.
func (b *imageBuild) write(ctx context.Context, c *console) error {
	if b.Output == "-" {
		if show.IsTerminal(c.stdout) {
			return mistake.New("name a file, or pass it on: … --output - | gzip >image.tar.gz", "a tar is not written to a terminal")
		}
		return b.tar(ctx, c, c.stdout)
	}
	return b.file(filepath.Dir(b.Output), func(f *os.File) error {
		if err := b.tar(ctx, c, f); err != nil {
			return err
		}
		return errors.Join(f.Chmod(0o644), f.Close(), os.Rename(f.Name(), b.Output))
	})
}

// add builds an image and imports it under all its names.
func (b *imageBuild) add(ctx context.Context, c *console, images belljar.Images) error {
	name := b.Name
	if name == "" {
		name = "belljar/" + b.Recipe
	}
	var image belljar.Image
	// Build completely before the upload: a server would time out while it waits for the next byte.
	err := b.file("", func(f *os.File) error {
		if err := b.tar(ctx, c, f); err != nil {
			return err
		}
		size, err := f.Seek(0, io.SeekEnd)
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err != nil {
			return err
		}
		shown := show.NewLayers(&c.Writer, name, size)
		image, err = images.Import(ctx, name, f, shown.Update)
		shown.Stop()
		return err
	})
	for _, alias := range b.Alias {
		if err == nil {
			image, err = images.Tag(ctx, name, alias)
		}
	}
	switch {
	case err != nil:
		return err
	case b.JSON:
		return show.JSON(c.stdout, image)
	}
	return show.Lines(c.stdout, []string{imageLine(strings.Join(append([]string{name}, b.Alias...), " "), image)})
}

// file calls do with a temporary file in dir ("" for the default), and removes it afterwards unless do has renamed it.
func (b *imageBuild) file(dir string, do func(*os.File) error) error {
	f, err := os.CreateTemp(dir, ".belljar-image-*.tar")
	if err != nil {
		return mistake.New("", "a file for image %s: %s", b.Recipe, mistake.Reason(err))
	}
	defer os.Remove(f.Name())
	defer f.Close()
	return do(f)
}

// tar writes the root file system.
func (b *imageBuild) tar(ctx context.Context, c *console, w io.Writer) error {
	shown := show.IsTerminal(c.Stderr) && !c.Quiet
	err := c.machine.Build(ctx, local.Build{Recipe: b.Recipe, Packages: b.Package, Suite: b.Suite, Mirror: b.Mirror, Log: func(line string) {
		if text, ok := strings.CutPrefix(line, "I: "); ok && shown {
			fmt.Fprintf(c.Stderr, "\r\x1b[Kbelljar: image %s: %s", b.Recipe, notice.OneLine(text))
		}
	}}, w)
	if shown {
		fmt.Fprint(c.Stderr, "\r\x1b[K")
	}
	return err
}
