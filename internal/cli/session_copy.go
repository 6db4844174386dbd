package cli

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/cli/transfer"
)

// sessionCopy is belljar session cp.
type sessionCopy struct {
	Paths []string `arg:"" name:"src dst" help:"One side is SESSION:PATH in a workspace, the other is on this machine."`
	Quiet bool     `short:"q" help:"Print no progress and no notes, only errors."`
	JSON  bool     `name:"json" help:"Print what was copied as one JSON object."`
}

func (p *sessionCopy) Help() string {
	return `Folders are copied with their contents. Into an existing folder, or a name that ends with /, each source is copied under its own name; any other destination is its new name. Existing files are replaced.

Examples:
  belljar session cp data.csv 01a1fe25-cb55:
  belljar session cp ./app 01a1fe25-cb55:src/
  belljar session cp 01a1fe25-cb55:out ./results
  belljar session cp a.txt b.txt 01a1fe25-cb55:in/`
}

// Run copies.
func (p *sessionCopy) Run(ctx context.Context, c *console) error {
	c.Quiet = p.Quiet
	return c.remote(func(s belljar.Service) error {
		if len(p.Paths) < 2 {
			return mistake.New("belljar session cp SRC… DST, one side as SESSION:PATH", "nothing to copy, or nowhere")
		}
		sources, last := p.Paths[:len(p.Paths)-1], p.Paths[len(p.Paths)-1]
		to := transfer.Copy{Service: s, Notice: &c.Writer, Session: func(ctx context.Context, prefix string) (string, error) {
			return ident.Session(ctx, s, prefix)
		}}
		result, err := to.Run(ctx, sources, last)
		if err != nil {
			return err
		}
		if p.JSON {
			return show.JSON(c.stdout, result)
		}
		c.aside("%s, %s, to %s", show.Plural(result.Files, "file"), show.Bytes(result.Bytes), result.To)
		return nil
	})
}
