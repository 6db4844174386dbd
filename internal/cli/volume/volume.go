// Package volume implements the commands about volumes, and the flags that put a workspace on disk.
package volume

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/field"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/quantity"
	"github.com/belljar/belljar/internal/cli/show"
)

// Flags put a workspace on disk.
type Flags struct {
	Disk   *quantity.Mebibytes `group:"limits" placeholder:"SIZE" help:"Put /workspace on the server's disk, with this size. With --volume, make the volume if there is none."`
	Volume string              `group:"limits" placeholder:"NAME[:ro]" help:"Use a volume of the server as /workspace. With :ro it is read-only, and others can use it at the same time."`
}

// Workspace returns the workspace that the flags request.
func (f Flags) Workspace() belljar.Workspace {
	name, mode, readOnly := strings.Cut(f.Volume, ":")
	w := belljar.Workspace{Volume: name, ReadOnly: mode == "ro"}
	if readOnly && mode != "ro" {
		w.Volume = f.Volume // no volume has this name
	}
	if f.Disk != nil {
		w.Medium, w.MB = "disk", int(*f.Disk)
	}
	return w
}

// Console is the environment of a command.
type Console interface {
	// Remote calls do with the server of the command line. With json, it also prints a failure as JSON.
	Remote(do func(s belljar.Service) error) error
	Out() io.Writer
}

// Commands are belljar volume ….
type Commands struct {
	Create create `cmd:"" help:"Make a volume."`
	LS     list   `cmd:"" name:"ls" help:"List volumes."`
	RM     remove `cmd:"" name:"rm" help:"Remove volumes with their files."`
}

// Help is the text of --help.
func (Commands) Help() string {
	return `A volume is a workspace on the server's disk that stays when a session or run with it ends.

Examples:
  belljar volume create data 2g
  belljar run --volume data -- sh -c 'date >> log'
  belljar run --volume data:ro -- cat log`
}

// create is belljar volume create.
type create struct {
	Name string             `arg:"" name:"volume" help:"Name of the volume: a-z and 0-9, and after the first character also - _ and ."`
	Size quantity.Mebibytes `arg:"" name:"size" help:"Size of its files together: 512m, 2g."`
	JSON bool               `name:"json" help:"Print the volume as one JSON object."`
}

// Run makes a volume.
func (m *create) Run(ctx context.Context, c Console) error {
	return c.Remote(func(s belljar.Service) error {
		spec := belljar.VolumeSpec{Name: m.Name, MB: int(m.Size)}
		var made belljar.Volume
		err := spec.Validate()
		if err == nil {
			made, err = s.Volumes().Create(ctx, spec)
		}
		switch {
		case err != nil:
			return field.InFlags(err)
		case m.JSON:
			return show.JSON(c.Out(), made)
		}
		return show.Lines(c.Out(), []string{made.Name})
	})
}

// list is belljar volume ls.
type list struct {
	JSON bool `name:"json" help:"Print one JSON array."`
}

// Run lists volumes.
func (l *list) Run(ctx context.Context, c Console) error {
	return c.Remote(func(s belljar.Service) error {
		all, err := s.Volumes().List(ctx)
		if err != nil {
			return err
		}
		return show.List(c.Out(), l.JSON, all, "VOLUME SIZE MADE USED-BY", func(x belljar.Volume) []string {
			return []string{x.Name, strconv.Itoa(x.MB) + "MiB", show.RoughDuration(time.Since(x.CreatedAt)) + " ago", strings.Join(x.UsedBy, ",")}
		})
	})
}

// remove is belljar volume rm.
type remove struct {
	Names []string `arg:"" name:"volume" help:"The volumes."`
	JSON  bool     `name:"json" help:"Print the names as one JSON array."`
}

// Run removes volumes and reports those that it cannot remove.
func (r *remove) Run(ctx context.Context, c Console) error {
	return c.Remote(func(s belljar.Service) error {
		removed, err := mistake.Each(r.Names, func(name string) (string, error) { return name, s.Volumes().Remove(ctx, name) })
		if err == nil && r.JSON {
			return show.JSON(c.Out(), removed)
		}
		return err
	})
}
