// Package image makes images of Debian packages on this machine, and selects the image of a request.
package image

import (
	"cmp"
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

// Of returns the image of a request. With a template, the server selects it.
func Of(image, template string) string {
	if template != "" {
		return image
	}
	return cmp.Or(image, local.HostImage)
}

// Maker makes images on this machine.
type Maker struct {
	Machine local.ImageMaker
	Writer  *notice.Writer // shows the progress
}

// Check refuses an unknown recipe.
func (m Maker) Check(recipe string) error {
	if all := m.Machine.Recipes(); !slices.Contains(all, recipe) {
		return mistake.New("can be made: "+strings.Join(all, ", "), "no recipe for %q", recipe)
	}
	return nil
}

// Add makes an image and imports it by a name.
func (m Maker) Add(ctx context.Context, images belljar.Images, name string, b local.Build) (image belljar.Image, err error) {
	// Build completely before the upload: a server would time out while it waits for data.
	err = File("", b.Recipe, func(f *os.File) error {
		if err := m.Tar(ctx, b, f); err != nil {
			return err
		}
		size, err := f.Seek(0, io.SeekEnd)
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err != nil {
			return err
		}
		shown := show.NewLayers(m.Writer, name, size)
		image, err = images.Import(ctx, name, f, shown.Update)
		shown.Stop()
		return err
	})
	return image, err
}

// File calls do with a temporary file in dir, and removes the file afterwards unless do has renamed it. In the default dir, "", the file has no
// name, so that nothing is left if the process is killed. Windows keeps the name.
func File(dir, recipe string, do func(*os.File) error) error {
	f, err := os.CreateTemp(dir, ".belljar-image-*.tar")
	if err != nil {
		return mistake.New("", "a file for image %s: %s", recipe, mistake.Reason(err))
	}
	if dir != "" || os.Remove(f.Name()) != nil {
		defer os.Remove(f.Name())
	}
	defer f.Close()
	return do(f)
}

// Write writes the tar file of an image atomically. It replaces only regular files.
func (m Maker) Write(ctx context.Context, b local.Build, name string) error {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return mistake.New("to write into it: --output - >"+show.Word(name), "--output %s: is not a regular file", name)
	}
	return File(filepath.Dir(name), b.Recipe, func(f *os.File) error {
		if err := m.Tar(ctx, b, f); err != nil {
			return err
		}
		if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
			return err
		}
		return os.Rename(f.Name(), name)
	})
}

// Tar writes the root file system of an image.
func (m Maker) Tar(ctx context.Context, b local.Build, w io.Writer) error {
	shown := show.IsTerminal(m.Writer.Stderr) && !m.Writer.Quiet
	b.Log = func(line string) {
		if text, ok := strings.CutPrefix(line, "I: "); ok && shown {
			fmt.Fprintf(m.Writer.Stderr, "\r\x1b[Kbelljar: image %s: %s", b.Recipe, notice.OneLine(text))
		}
	}
	err := m.Machine.Build(ctx, b, w)
	if shown {
		fmt.Fprint(m.Writer.Stderr, "\r\x1b[K")
	}
	return err
}
