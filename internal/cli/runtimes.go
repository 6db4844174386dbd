package cli

import (
	"context"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/show"
)

// runtimesCommand is belljar runtimes.
type runtimesCommand struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

// Run lists the server's runtimes.
func (r *runtimesCommand) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		found, err := s.Node().Runtimes(ctx)
		if err != nil {
			return err
		}
		if r.JSON {
			return show.JSON(c.stdout, found)
		}
		rows := [][]string{}
		for _, rt := range found.Runtimes {
			state := "available"
			if !rt.Available {
				state = "unavailable"
			}
			if rt.Default {
				state += ", default"
			}
			why := ""
			switch {
			case len(rt.Reasons) > 0:
				why = rt.Reasons[0].Detail
			case rt.Notes != nil:
				why = *rt.Notes
			}
			rows = append(rows, []string{rt.Name, rt.Version, state, rt.Isolation, strings.Join(unpinned(rt.DefaultImages), " "), why})
		}
		return show.Table(c.stdout, "NAME VERSION STATE ISOLATION IMAGES NOTES", rows)
	})
}

// unpinned returns the names of images without their digests.
func unpinned(images []string) []string {
	names := make([]string, len(images))
	for i, image := range images {
		names[i], _, _ = strings.Cut(image, "@")
	}
	return names
}
