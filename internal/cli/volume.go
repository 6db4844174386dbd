package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/field"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/quantity"
	"github.com/belljar/belljar/internal/cli/show"
)

// diskFlags put a workspace on disk.
type diskFlags struct {
	Disk   *quantity.Mebibytes `group:"limits" placeholder:"SIZE" help:"Put /workspace on the server's disk, with room for that much; with --volume, make the volume if there is none."`
	Volume string              `group:"limits" placeholder:"NAME[:ro]" help:"Have a volume of the server as /workspace; with :ro nothing can write to it, and others can have it at the same time."`
}

func (f diskFlags) workspace() belljar.Workspace {
	name, mode, readOnly := strings.Cut(f.Volume, ":")
	w := belljar.Workspace{MB: int(whole(f.Disk)), Volume: name, ReadOnly: mode == "ro"}
	if readOnly && mode != "ro" {
		w.Volume = f.Volume // which no volume is called
	}
	if w.MB > 0 {
		w.Medium = "disk"
	}
	return w
}

// volumeCommands are belljar volume ….
type volumeCommands struct {
	Create volumeCreate `cmd:"" help:"Make a volume."`
	LS     volumeList   `cmd:"" name:"ls" help:"List volumes."`
	RM     volumeRemove `cmd:"" name:"rm" help:"Remove volumes with their files."`
}

// Help is the long help.
func (volumeCommands) Help() string {
	return `A volume is a workspace on the server's disk that stays when a session or run with it ends.

Examples:
  belljar volume create data 2g
  belljar run --volume data -- sh -c 'date >> log'
  belljar run --volume data:ro -- cat log`
}

// volumeCreate is belljar volume create.
type volumeCreate struct {
	Name string             `arg:"" name:"volume" help:"Its name: a-z, 0-9, and after the first also - _ and ."`
	Size quantity.Mebibytes `arg:"" name:"size" help:"What its files may have: 512m, 2g."`
	JSON bool               `name:"json" help:"Print the volume as one JSON object."`
}

// Run makes a volume.
func (m *volumeCreate) Run(ctx context.Context, c *console) error {
	return c.remote(m.JSON, func(s belljar.Service) error {
		made, err := s.Volumes().Create(ctx, belljar.VolumeSpec{Name: m.Name, MB: int(whole(&m.Size))})
		switch {
		case err != nil:
			return field.InFlags(err)
		case m.JSON:
			return show.JSON(c.stdout, made)
		}
		return show.Lines(c.stdout, []string{made.Name})
	})
}

// volumeList is belljar volume ls.
type volumeList struct {
	JSON bool `name:"json" help:"Print one JSON array."`
}

// Run lists volumes.
func (l *volumeList) Run(ctx context.Context, c *console) error {
	return c.remote(l.JSON, func(s belljar.Service) error {
		all, err := s.Volumes().List(ctx)
		switch {
		case err != nil:
			return err
		case l.JSON:
			return show.JSON(c.stdout, all)
		}
		rows := [][]string{}
		for _, x := range all {
			rows = append(rows, []string{
				x.Name, strconv.Itoa(x.MB) + "MiB", show.RoughDuration(time.Since(x.CreatedAt)) + " ago", strings.Join(x.UsedBy, ","),
			})
		}
		return show.Table(c.stdout, "VOLUME SIZE MADE USED-BY", rows)
	})
}

// volumeRemove is belljar volume rm.
type volumeRemove struct {
	Names []string `arg:"" name:"volume" help:"The volumes."`
}

// Run removes volumes and reports those that it cannot remove.
func (r *volumeRemove) Run(ctx context.Context, c *console) error {
	return c.remote(false, func(s belljar.Service) error {
		var failed []error
		for _, name := range r.Names {
			if err := s.Volumes().Remove(ctx, name); err != nil {
				failed = append(failed, mistake.In(name, err))
			}
		}
		return c.reportAll(failed)
	})
}
