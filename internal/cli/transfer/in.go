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

// in copies what is here into a workspace, all of it or nothing.
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
		if err := files.addTree(source, name); err != nil {
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

// target is where in a workspace a copy goes, and whether it goes into that as a folder.
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

// baseOf is what a source is called; the folder that "." stands for has its own name.
func baseOf(source string) string {
	if full, err := filepath.Abs(source); err == nil {
		source = full
	}
	return filepath.Base(source)
}
