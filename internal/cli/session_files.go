package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/notice"
)

// sessionFiles is belljar session files.
type sessionFiles struct {
	ID        string `arg:"" name:"session" help:"The session: its id, or the beginning of it."`
	Path      string `arg:"" optional:"" name:"path" help:"Folder or file of the workspace (default: all of it)."`
	Recursive bool   `short:"r" help:"List folders below, too."`
	Limit     int    `short:"n" default:"1000" placeholder:"N" help:"At most N entries (default 1000, at most 10000)."`
	Quiet     bool   `short:"q" help:"Print paths only."`
	JSON      bool   `name:"json" help:"Print one JSON object."`
}

// mostFiles is the most entries of a list.
const mostFiles = 10_000

// Run lists files.
func (f *sessionFiles) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		if f.Limit < 1 || f.Limit > mostFiles {
			return mistake.New("", "--limit: %d is not between 1 and %d", f.Limit, mostFiles)
		}
		id, err := ident.Session(ctx, s, f.ID)
		if err != nil {
			return err
		}
		list, err := s.Files().List(ctx, id, belljar.FileQuery{Path: f.Path, Recursive: f.Recursive, Limit: f.Limit})
		if err != nil {
			return err
		}
		if f.JSON {
			return show.JSON(c.stdout, list)
		}
		rows, paths := [][]string{}, []string{}
		for _, e := range list.Entries {
			paths = append(paths, notice.OneLine(e.Path))
			size, name := strconv.FormatInt(e.Size, 10), e.Path
			switch e.Type {
			case "dir":
				size, name = "", name+"/"
			case "symlink":
				size, name = "", name+" -> "+e.Target
			}
			rows = append(rows, []string{e.Mode, size, time.Unix(e.MtimeUnix, 0).Format(time.DateTime), name})
		}
		if f.Quiet {
			err = show.Lines(c.stdout, paths)
		} else {
			err = show.Table(c.stdout, "MODE SIZE MODIFIED PATH", rows)
		}
		if err == nil && list.Truncated {
			more := "--limit shows more"
			if f.Limit == mostFiles || len(list.Entries) < f.Limit { // or the names are long, or a folder is deep
				more = "list one of the folders to see more"
			}
			c.Note("these are the first %d; %s", len(list.Entries), more)
		}
		return err
	})
}
