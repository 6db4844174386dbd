package cli

import (
	"context"
	"io"
	"io/fs"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/cli/transfer"
)

// artifactCommands are belljar artifact ….
type artifactCommands struct {
	LS  artifactList `cmd:"" name:"ls" help:"List the artifacts of a run."`
	Get artifactGet  `cmd:"" help:"Fetch artifacts of a run."`
}

// artifactList is belljar artifact ls.
type artifactList struct {
	ID   string `arg:"" name:"run" help:"The run: its id, or the beginning of it."`
	JSON bool   `name:"json" help:"Print one JSON array."`
}

// Run lists artifacts.
func (l *artifactList) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		id, err := ident.Run(ctx, s, l.ID)
		if err != nil {
			return err
		}
		list, err := s.Artifacts().List(ctx, id)
		if err != nil {
			return err
		}
		return show.List(c.stdout, l.JSON, list, "SIZE MODE PATH", func(a belljar.Artifact) []string {
			path := a.Path
			switch {
			case a.LinkTarget != "":
				path += " -> " + a.LinkTarget
			case a.Skipped != "":
				path += " (not kept: " + a.Skipped + ")"
			}
			return []string{show.Bytes(a.Size), fs.FileMode(a.Mode & 0o777).String(), path}
		})
	})
}

// artifactGet is belljar artifact get.
type artifactGet struct {
	ID   string `arg:"" name:"run" help:"The run: its id, or the beginning of it."`
	Path string `arg:"" optional:"" help:"One artifact (default: all)."`
	Out  string `short:"o" placeholder:"DIR" help:"Folder for the files, which keep their paths."`
	JSON bool   `name:"json" help:"Print what was fetched as one JSON array."`
}

func (g *artifactGet) Help() string {
	return `Without --out, a single file goes to standard output.

Examples:
  belljar artifact get 01a1fe25-cb55 report.csv | head
  belljar artifact get 01a1fe25-cb55 --out results`
}

// Run fetches artifacts.
func (g *artifactGet) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		switch {
		case g.Out == "" && g.Path == "":
			return mistake.New("--out DIR, or the path of one file", "no place for the files")
		case g.Out == "" && g.JSON:
			return mistake.New("--out DIR", "--json needs another place for the file")
		}
		id, err := ident.Run(ctx, s, g.ID)
		if err != nil {
			return err
		}
		if g.Out == "" {
			return transfer.Artifact(ctx, s, id, g.Path, c.stdout)
		}
		return g.fetch(ctx, c, s, id)
	})
}

// fetch puts artifacts into --out.
func (g *artifactGet) fetch(ctx context.Context, c *console, s belljar.Service, id string) error {
	list, err := s.Artifacts().List(ctx, id)
	if err != nil {
		return err
	}
	if g.Path != "" {
		if list, err = transfer.Only(list, id, g.Path); err != nil {
			return err
		}
		if list[0].Skipped != "" || list[0].LinkTarget != "" {
			return transfer.Artifact(ctx, s, id, g.Path, io.Discard) // an error, with the reason
		}
	}
	out, err := transfer.OpenOutDir(g.Out)
	if err != nil {
		return err
	}
	defer out.Close()
	ctx, stopped := interrupt.Context(ctx)
	kept, err := (&plan{out: out}).save(ctx, c, s, id, list)
	if err == nil && g.Path != "" && len(kept) == 0 {
		err = transfer.Artifact(ctx, s, id, g.Path, io.Discard)
	}
	if err = stopped(err); err != nil {
		return err
	}
	if g.JSON {
		return show.JSON(c.stdout, kept)
	}
	c.aside("%s in %s", show.Plural(len(kept), "file"), g.Out)
	return nil
}
