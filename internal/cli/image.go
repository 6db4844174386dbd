package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/quantity"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/cli/transfer"
)

// imageCommands are belljar image ….
type imageCommands struct {
	Pull    imagePull    `cmd:"" help:"Fetch images from their registries."`
	Import  imageImport  `cmd:"" help:"Import an image from a file."`
	List    imageList    `cmd:"" name:"ls" aliases:"list" help:"List the images."`
	Inspect imageInspect `cmd:"" help:"Show an image."`
	Tag     imageTag     `cmd:"" help:"Add a name to an image."`
	Remove  imageRemove  `cmd:"" name:"rm" aliases:"remove" help:"Remove names, and with the last one the image."`
	Prune   imagePrune   `cmd:"" help:"Remove images that are not used."`
	Build   imageBuild   `cmd:"" help:"Make an image from Debian packages."`
	GoCache imageGoCache `cmd:"" help:"Make Go programs start fast in an image."`
}

func (imageCommands) Help() string {
	return `Images are kept unpacked, each layer once, and every runtime uses them read-only. Without a server, these commands
manage the images in the data folder of this machine, which a server on this machine uses, too.

Examples:
  belljar image pull python:3.11-slim
  docker save app | belljar image import -
  belljar image tag belljar/python python:3.11-slim
  belljar image prune --unused 30d`
}

// imagePull is belljar image pull.
type imagePull struct {
	Refs    []string `arg:"" name:"image" help:"Such as python:3.11-slim or registry.example/team/app@sha256:…."`
	Always  bool     `help:"Ask the registry for the name's current image, even if an image of that name is here."`
	Runtime string   `placeholder:"NAME" help:"Let the engine of this runtime pull the image, instead of Belljar (with a server)."`
	Quiet   bool     `short:"q" help:"No progress."`
	JSON    bool     `name:"json" help:"Print one JSON array."`
}

// Run pulls the given images and reports those that it cannot pull.
func (p *imagePull) Run(ctx context.Context, c *console) error {
	c.Quiet = p.Quiet
	return c.images(func(images belljar.Images) error {
		ctx, stopped := interrupt.Context(ctx)
		got := []belljar.Image{}
		var failed []error
		for _, ref := range p.Refs {
			shown := show.NewLayers(&c.Writer, ref, 0)
			image, err := images.Pull(ctx, belljar.ImagePull{Ref: ref, Runtime: p.Runtime, Always: p.Always}, shown.Update)
			shown.Stop()
			if ctx.Err() != nil && err != nil {
				c.Note("%s was interrupted; complete layers are kept for the next time", ref)
				return stopped(err)
			}
			if err != nil {
				failed = append(failed, err) // the error names the image
				continue
			}
			got = append(got, image)
			if !p.JSON {
				if err := show.Lines(c.stdout, []string{imageLine(ref, image)}); err != nil {
					return stopped(err)
				}
			}
		}
		if p.JSON && len(failed) == 0 {
			return stopped(show.JSON(c.stdout, got))
		}
		return stopped(mistake.Of(got, failed))
	})
}

// imageLine describes an imported or pulled image in one line.
func imageLine(ref string, i belljar.Image) string {
	return fmt.Sprintf("%s  %s  %s", ref, i.Digest, show.Bytes(i.Bytes))
}

// imageImport is belljar image import.
type imageImport struct {
	File  string `arg:"" help:"A tar archive: an OCI layout, one of docker save, or a root file system, compressed or not; or the folder of an OCI layout; - is standard input."`
	Name  string `placeholder:"NAME" help:"Name of the image (default: from the archive)."`
	Quiet bool   `short:"q" help:"No progress."`
	JSON  bool   `name:"json" help:"Print the image as one JSON object."`
}

// Run reads an image.
func (i *imageImport) Run(ctx context.Context, c *console) error {
	c.Quiet = i.Quiet
	return c.images(func(images belljar.Images) error {
		in, size, err := i.open(c)
		if err != nil {
			return err
		}
		defer in.Close()
		ctx, stopped := interrupt.Context(ctx)
		shown := show.NewLayers(&c.Writer, i.File, size)
		image, err := images.Import(ctx, i.Name, in, shown.Update)
		shown.Stop()
		switch {
		case err != nil:
			return stopped(mistake.In(i.File, err))
		case i.JSON:
			return stopped(show.JSON(c.stdout, image))
		}
		return stopped(show.Lines(c.stdout, []string{imageLine(image.Ref, image)}))
	})
}

// open opens the source and returns its size in bytes, or 0 if unknown.
func (i *imageImport) open(c *console) (io.ReadCloser, int64, error) {
	if i.File == "-" {
		if show.IsTerminal(c.stdin) {
			return nil, 0, mistake.New("docker save IMAGE | belljar image import -", "the archive is not read from a terminal")
		}
		return io.NopCloser(c.stdin), 0, nil
	}
	f, err := os.Open(i.File)
	if err != nil {
		return nil, 0, mistake.New("", "%s: %s", i.File, mistake.Reason(err))
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		f.Close()
		return nil, 0, mistake.New("", "%s: %s", i.File, mistake.Reason(err))
	case !info.IsDir():
		return f, info.Size(), nil
	}
	f.Close()
	l, size, err := transfer.OpenLayout(i.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, mistake.New("pack it: tar -cf - -C "+show.Word(i.File)+" . | belljar image import --name NAME -", "%s: is neither a file nor an OCI layout", i.File)
	}
	if err != nil {
		return nil, 0, mistake.New("", "%s: %s", i.File, mistake.Reason(err))
	}
	return l, size, nil
}

// imageList is belljar image ls.
type imageList struct {
	JSON bool `name:"json" help:"Print one JSON array."`
}

// Run lists images.
func (l *imageList) Run(ctx context.Context, c *console) error {
	return c.images(func(images belljar.Images) error {
		list, err := images.List(ctx)
		if err != nil {
			return err
		}
		return show.List(c.stdout, l.JSON, list, "NAMES DIGEST SIZE FROM ENGINE USED", func(i belljar.Image) []string {
			size := show.Bytes(i.Bytes)
			if i.Source == "host" {
				size = ""
			}
			used := ""
			switch {
			case i.InUse:
				used = "now"
			case time.Since(i.LastUsedAt) < 2*time.Minute: // the resolution is a minute
				used = "just now"
			case !i.LastUsedAt.IsZero():
				used = show.RoughDuration(time.Since(i.LastUsedAt)) + " ago"
			}
			return []string{strings.Join(i.Names, " "), shortDigest(i.Digest), size, i.Source, i.Runtime, used}
		})
	})
}

// shortDigest returns a digest as lists show it and commands accept it.
func shortDigest(digest string) string {
	return digest[:min(len(digest), len("sha256:")+12)]
}

// imageInspect is belljar image inspect.
type imageInspect struct {
	Ref  string `arg:"" name:"image" help:"A name of the image, or its digest."`
	JSON bool   `name:"json" help:"Print one JSON object."`
}

// Run describes an image.
func (i *imageInspect) Run(ctx context.Context, c *console) error {
	return c.images(func(images belljar.Images) error {
		got, err := images.Get(ctx, i.Ref)
		if err != nil {
			return err
		}
		if i.JSON {
			return show.JSON(c.stdout, got)
		}
		when := func(t time.Time) string {
			if t.IsZero() {
				return ""
			}
			return t.Local().Format(time.DateTime)
		}
		used := got.LastUsedAt
		if used.Before(got.AddedAt) {
			used = got.AddedAt // the resolution is a minute
		}
		pairs := [][2]string{
			{"ref", got.Ref}, {"names", strings.Join(got.Names, " ")}, {"digest", got.Digest}, {"from", got.Source}, {"engine", got.Runtime},
			{"platform", got.Platform},
		}
		if got.Source != "host" {
			pairs = append(pairs, [2]string{"size", show.Bytes(got.Bytes)}, [2]string{"layers", strconv.Itoa(got.Layers)})
		}
		pairs = append(pairs, [][2]string{
			{"made", when(got.CreatedAt)}, {"added", when(got.AddedAt)}, {"used", when(used)},
			{"user", got.Config.User}, {"folder", got.Config.WorkingDir}, {"entrypoint", strings.Join(got.Config.Entrypoint, " ")}, {"command", strings.Join(got.Config.Cmd, " ")},
		}...)
		for _, variable := range got.Config.Env {
			pairs = append(pairs, [2]string{"env", variable})
		}
		return show.Pairs(c.stdout, pairs)
	})
}

// imageTag is belljar image tag.
type imageTag struct {
	Ref  string `arg:"" name:"image" help:"A name of the image, or its digest."`
	Name string `arg:"" help:"The new name. If another image has it, the name moves."`
	JSON bool   `name:"json" help:"Print the image as one JSON object."`
}

// Run adds a name to an image.
func (t *imageTag) Run(ctx context.Context, c *console) error {
	return c.images(func(images belljar.Images) error {
		got, err := images.Tag(ctx, t.Ref, t.Name)
		if err == nil && t.JSON {
			return show.JSON(c.stdout, got)
		}
		return err
	})
}

// imageRemove is belljar image rm.
type imageRemove struct {
	Refs []string `arg:"" name:"image" help:"Names to remove, or a digest for all names of its image."`
	JSON bool     `name:"json" help:"Print what was removed as one JSON array."`
}

// Run removes the given images and reports those that it cannot remove.
func (r *imageRemove) Run(ctx context.Context, c *console) error {
	return c.images(func(images belljar.Images) error {
		gone := []string{}
		var failed []error
		for _, ref := range r.Refs {
			if err := images.Remove(ctx, ref); err != nil {
				failed = append(failed, err)
			} else {
				gone = append(gone, ref)
			}
		}
		return c.printDone(r.JSON, gone, mistake.Of(gone, failed))
	})
}

// imagePrune is belljar image prune.
type imagePrune struct {
	Unused *quantity.Age       `placeholder:"TIME" help:"Remove images that no sandbox has used for this time: 30d, 12h."`
	Keep   *quantity.Mebibytes `placeholder:"SIZE" help:"Remove images, least recently used first, until the others fit into this size: 10GB."`
	All    bool                `help:"Remove every image that no sandbox uses now."`
	JSON   bool                `name:"json" help:"Print one JSON object."`
}

// Run removes images.
func (p *imagePrune) Run(ctx context.Context, c *console) error {
	if p.Unused == nil && p.Keep == nil && !p.All {
		return mistake.New("--unused 30d, --keep 10GB or --all", "no rule selects images to remove")
	}
	return c.images(func(images belljar.Images) error {
		gone, err := images.Prune(ctx, belljar.ImagePrune{UnusedSec: value(p.Unused), KeepBytes: int64(whole(p.Keep)) << 20, All: p.All})
		if err != nil {
			return err
		}
		if p.JSON {
			gone.Images = append([]string{}, gone.Images...)
			return show.JSON(c.stdout, gone)
		}
		c.Note("%s removed, %s freed", show.Plural(len(gone.Images), "image"), show.Bytes(gone.Bytes))
		return show.Lines(c.stdout, gone.Images)
	})
}
