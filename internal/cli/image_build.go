package cli

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/image"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/local"
)

// imageBuild is belljar image build.
type imageBuild struct {
	Recipe  string   `arg:"" name:"recipe" help:"Contents of the image: shell, python, node, go or java."`
	Name    string   `placeholder:"NAME" help:"Name of the image (default: belljar/ and the recipe's name)."`
	Alias   []string `placeholder:"NAME" sep:"none" help:"A second name, such as the one that requests use: python:3.11-slim. Repeatable."`
	Package []string `placeholder:"NAME" sep:"none" help:"A further Debian package in the image. Repeatable."`
	Suite   string   `placeholder:"SUITE" help:"Debian release (default: this machine's, or bookworm if it is not Debian)."`
	Mirror  string   `placeholder:"URL" help:"Address of the packages (default: this machine's sources of that release, in /etc/apt)."`
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
	if b.Output != "" && (b.Name != "" || len(b.Alias) > 0 || b.JSON) {
		return mistake.New("image import FILE names it, image tag gives it more names", "--output makes a file and no image, so --name, --alias and --json do not go with it")
	}
	return c.maker().Check(b.Recipe)
}

// Run builds an image, or a tar archive of one.
func (b *imageBuild) Run(ctx context.Context, c *console) error {
	return b.build(ctx, c, c.images)
}

// build builds an image, or a tar archive of one. open provides the image store. An interrupted build leaves no
// files.
func (b *imageBuild) build(ctx context.Context, c *console, open func(func(belljar.Images) error) error) error {
	c.Quiet = c.Quiet || b.Quiet
	if err := b.check(c); err != nil {
		return err
	}
	ctx, stopped := interrupt.Context(ctx)
	var err error
	if b.Output != "" {
		err = b.write(ctx, c)
	} else { // opened before the build, so that a failure costs no build
		err = open(func(images belljar.Images) error { return b.add(ctx, c, images) })
	}
	if err != nil && ctx.Err() != nil {
		if left, is := errors.AsType[*belljar.Error](err); is && left.Code == belljar.CodeInternal {
			c.fail(left)
		} else {
			c.Note("stopped, nothing is left of image %s", b.Recipe)
		}
	}
	return stopped(err)
}

func (b *imageBuild) spec() local.Build {
	return local.Build{Recipe: b.Recipe, Packages: b.Package, Suite: b.Suite, Mirror: b.Mirror}
}

// write writes the tar file.
func (b *imageBuild) write(ctx context.Context, c *console) error {
	if b.Output != "-" {
		return c.maker().Write(ctx, b.spec(), b.Output)
	}
	if show.IsTerminal(c.stdout) {
		return mistake.New("name a file, or pass it on: … --output - | gzip >image.tar.gz", "a tar is not written to a terminal")
	}
	return c.maker().Tar(ctx, b.spec(), c.stdout)
}

// add builds an image and imports it under all its names.
func (b *imageBuild) add(ctx context.Context, c *console, images belljar.Images) error {
	name := cmp.Or(b.Name, "belljar/"+b.Recipe)
	spec := b.spec()
	spec.Names = append([]string{name}, b.Alias...)
	made, err := c.maker().Add(ctx, images, name, spec)
	for _, alias := range b.Alias {
		if err == nil {
			made, err = images.Tag(ctx, name, alias)
		}
	}
	switch {
	case err != nil:
		return err
	case b.JSON:
		return show.JSON(c.stdout, made)
	}
	return show.Lines(c.stdout, []string{imageLine(strings.Join(spec.Names, " "), made)})
}

// maker makes images on this machine.
func (c *console) maker() image.Maker { return image.Maker{Machine: c.machine, Writer: &c.Writer} }
