package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/belljar/belljar"
)

// imageBuild is belljar image build.
type imageBuild struct {
	Recipe string   `arg:"" name:"recipe" help:"What to make: shell, python, node, go or java."`
	Name   string   `placeholder:"NAME" help:"What the image is called (default belljar/ and the recipe's name)."`
	Alias  []string `placeholder:"NAME" sep:"none" help:"One more name, which may be any that requests have: python:3.11-slim. May be given again."`
	Suite  string   `placeholder:"SUITE" help:"Debian's release (default this machine's, or bookworm if that is no Debian)."`
	Mirror string   `placeholder:"URL" help:"Where the packages are (default this machine's sources of that release)."`
	Output string   `short:"o" placeholder:"FILE" help:"Write the root file system as tar, for image import elsewhere; - is stdout."`
	JSON   bool     `name:"json" help:"Print the image as JSON."`
}

// Help has the examples.
func (*imageBuild) Help() string {
	return `Makes an image of Debian packages on this machine, with mmdebstrap or debootstrap, where there is no registry to pull from.

Examples:
  belljar image build python --alias python:3.11-slim
  belljar image build node --suite trixie --alias node:20-alpine
  belljar image build shell --output shell.tar`
}

// check finds what is wrong with the flags.
func (b *imageBuild) check() error {
	if !slices.Contains(debianImages(), b.Recipe) {
		return mistake("can be made: "+strings.Join(debianImages(), ", "), "there is no recipe for %q", b.Recipe)
	}
	if b.Output != "" && (b.Name != "" || len(b.Alias) > 0 || b.JSON) {
		return mistake("image import FILE names it, image tag gives it more names", "--output makes a file and no image, so --name, --alias and --json do not go with it")
	}
	return nil
}

// build makes the image. open gives the images that it is to be among. Who interrupts it finds nothing left.
func (b *imageBuild) build(ctx context.Context, c *console, open func(func(belljar.Images) error) error) error {
	if err := b.check(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := b.make(ctx, c, open)
	if ctx.Err() != nil {
		c.say("stopped, nothing is left of image %s", b.Recipe)
		return exitStatus(128 + int(syscall.SIGINT))
	}
	return err
}

func (b *imageBuild) make(ctx context.Context, c *console, open func(func(belljar.Images) error) error) error {
	if b.Output == "-" {
		return b.tar(ctx, c, c.stdout)
	}
	dir := filepath.Dir(b.Output)
	if b.Output == "" {
		dir = "" // the temporary folder
	}
	f, err := os.CreateTemp(dir, ".belljar-image-*.tar")
	if err != nil {
		return fmt.Errorf("build image %s: %w", b.Recipe, err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := b.tar(ctx, c, f); err != nil {
		return err
	}
	if b.Output != "" {
		if err := errors.Join(f.Chmod(0o644), f.Close(), os.Rename(f.Name(), b.Output)); err != nil {
			return fmt.Errorf("build image %s: %w", b.Recipe, err)
		}
		return nil
	}
	return open(func(images belljar.Images) error { return b.add(ctx, c, images, f) })
}

// tar writes the root file system.
func (b *imageBuild) tar(ctx context.Context, c *console, w io.Writer) error {
	shown := isTerminal(c.stderr) && !c.quiet
	err := buildDebian(ctx, b, w, func(line string) {
		if text, ok := strings.CutPrefix(line, "I: "); ok && shown {
			fmt.Fprintf(c.stderr, "\r\x1b[Kbelljar: image %s: %s", b.Recipe, oneLine(text))
		}
	})
	if shown {
		fmt.Fprint(c.stderr, "\r\x1b[K")
	}
	return err
}

// add puts what was built among the images, under all its names.
func (b *imageBuild) add(ctx context.Context, c *console, images belljar.Images, f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("build image %s: %w", b.Recipe, err)
	}
	name := b.Name
	if name == "" {
		name = "belljar/" + b.Recipe
	}
	shown := c.progress("import "+name, size)
	image, err := images.Import(ctx, name, shown.of(f), nil)
	shown.stop()
	for _, alias := range b.Alias {
		if err == nil {
			image, err = images.Tag(ctx, name, alias)
		}
	}
	if err != nil {
		return err
	}
	if b.JSON {
		return writeJSON(c.stdout, image)
	}
	return c.lines([]string{fmt.Sprintf("%s  %s  %s", strings.Join(append([]string{name}, b.Alias...), " "), image.Digest, bytesOf(image.Bytes))})
}
