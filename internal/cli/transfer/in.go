package transfer

import (
	"context"
	"path"
	"path/filepath"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
)

// in copies local files into a workspace, all or none.
func (c *Copy) in(ctx context.Context, sources []string, to place) (Copied, error) {
	for _, source := range sources {
		if _, remote := placeOf(source); remote {
			return Copied{}, mistake.New("copy it here first", "both %s and the destination are in sessions", source)
		}
	}
	id, err := c.Session(ctx, to.session)
	if err != nil {
		return Copied{}, err
	}
	target, into, err := c.target(ctx, id, to.path, len(sources) > 1)
	if err != nil {
		return Copied{}, err
	}
	files := &Upload{}
	defer files.Close()
	for _, source := range sources {
		name := target
		if into {
			name = path.Join(target, baseOf(source))
		}
		if err := files.AddTree(source, name); err != nil {
			return Copied{}, err
		}
	}
	if files.Empty() {
		return Copied{}, mistake.New("", "%s is empty: there is nothing to copy", strings.Join(sources, ", "))
	}
	var total int64
	for _, f := range files.sources {
		total += f.size()
	}
	shown := show.NewProgress(c.Notice, "copying to "+path.Join(belljar.WorkspaceDir, target), total)
	defer shown.Stop()
	n, size, err := c.send(ctx, id, files, shown)
	return Copied{id, n, size, to.session + ":" + path.Join(belljar.WorkspaceDir, target)}, err
}

// target returns the destination in a workspace, and whether the copy goes into it as a folder.
func (c *Copy) target(ctx context.Context, id, name string, several bool) (clean string, into bool, err error) {
	into = several || name == "" || strings.HasSuffix(name, "/")
	if name == "" {
		name = "."
	}
	if clean, err = belljar.CleanPath(name); err != nil {
		return "", false, mistake.New("name a path in "+belljar.WorkspaceDir, "%s: %v", name, err)
	}
	if clean == "." || into {
		return clean, true, nil
	}
	entry, err := c.Service.Files().Stat(ctx, id, clean)
	if belljar.CodeOf(err) == belljar.CodeNotFound {
		if _, gone := c.Service.Sessions().Get(ctx, id); gone != nil {
			return "", false, gone
		}
		return clean, false, nil
	}
	return clean, entry.Type == "dir", err
}

// baseOf returns the name of a source. For ".", it is the name of the current folder.
func baseOf(source string) string {
	if full, err := filepath.Abs(source); err == nil {
		source = full
	}
	return filepath.Base(source)
}
