package cli

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/belljar/belljar"
)

// sessionCopy is belljar session cp.
type sessionCopy struct {
	Paths []string `arg:"" name:"src dst" help:"One side is SESSION:PATH in a workspace, the other is on this machine."`
	Quiet bool     `short:"q" help:"No progress and no notes, only failures."`
	JSON  bool     `name:"json" help:"Print what was copied as one JSON object."`
}

// Help is the long help.
func (p *sessionCopy) Help() string {
	return `Folders are copied with all that is in them. Into a folder that exists, or one named with a / at the
end, a thing is copied under its own name; any other destination is its new name. What is there is replaced.

Examples:
  belljar session cp data.csv 01a1fe25-cb55:
  belljar session cp ./app 01a1fe25-cb55:src/
  belljar session cp 01a1fe25-cb55:out ./results
  belljar session cp a.txt b.txt 01a1fe25-cb55:in/`
}

// remotePlace is SESSION:PATH.
type remotePlace struct{ session, path string }

// placeOf reads SESSION:PATH. What exists here, or begins like a path, is here.
func placeOf(text string) (remotePlace, bool) {
	session, inside, found := strings.Cut(text, ":")
	if !found || session == "" || strings.ContainsAny(session, `/\.`) {
		return remotePlace{}, false
	}
	if _, err := os.Lstat(text); err == nil {
		return remotePlace{}, false
	}
	return remotePlace{session, inside}, true
}

// copied is what a copy brought.
type copied struct {
	SessionID string `json:"session_id"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
	To        string `json:"to"`
}

// Run copies.
func (p *sessionCopy) Run(ctx context.Context, c *console) error {
	c.Quiet = p.Quiet
	return c.remote(p.JSON, func(s belljar.Service) error {
		if len(p.Paths) < 2 {
			return mistake("belljar session cp SRC… DST, one side as SESSION:PATH", "nothing to copy, or nowhere")
		}
		sources, last := p.Paths[:len(p.Paths)-1], p.Paths[len(p.Paths)-1]
		to, up := placeOf(last)
		var result copied
		var err error
		if up {
			result, err = c.copyIn(ctx, s, sources, to)
		} else {
			result, err = c.copyOut(ctx, s, sources, last)
		}
		if err != nil {
			return err
		}
		if p.JSON {
			return writeJSON(c.stdout, result)
		}
		c.aside("%s, %s, to %s", plural(result.Files, "file"), bytesOf(result.Bytes), result.To)
		return nil
	})
}

// copyIn copies what is here into a workspace, all of it or nothing.
func (c *console) copyIn(ctx context.Context, s belljar.Service, sources []string, to remotePlace) (copied, error) {
	for _, source := range sources {
		if _, remote := placeOf(source); remote {
			return copied{}, mistake("copy it here first", "both %s and the destination are in sessions", source)
		}
	}
	id, err := findSession(ctx, s, to.session)
	if err != nil {
		return copied{}, err
	}
	target, into, err := c.target(ctx, s, id, to.path, len(sources) > 1)
	if err != nil {
		return copied{}, err
	}
	files := &upload{}
	defer files.close()
	for _, source := range sources {
		name := target
		if into {
			name = path.Join(target, baseOf(source))
		}
		if err := files.addTree(source, name); err != nil {
			return copied{}, err
		}
	}
	if len(files.sources) == 0 {
		return copied{}, mistake("", "%s is empty: there is nothing to copy", strings.Join(sources, ", "))
	}
	var total int64
	for _, f := range files.sources {
		total += f.size()
	}
	shown := c.progress("copying to "+path.Join(belljar.WorkspaceDir, target), total)
	defer shown.stop()
	n, size, err := c.send(ctx, s, id, files, shown)
	return copied{id, n, size, to.session + ":" + path.Join(belljar.WorkspaceDir, target)}, err
}

// target is where in a workspace a copy goes, and whether it goes into that as a folder.
func (c *console) target(ctx context.Context, s belljar.Service, id, name string, several bool) (clean string, into bool, err error) {
	into = several || name == "" || strings.HasSuffix(name, "/")
	if name == "" {
		name = "."
	}
	if clean, err = belljar.CleanPath(name); err != nil {
		return "", false, mistake("name a path in "+belljar.WorkspaceDir, "%s: %v", name, err)
	}
	if clean == "." || into {
		return clean, true, nil
	}
	entry, err := s.Files().Stat(ctx, id, clean)
	if belljar.CodeOf(err) == belljar.CodeNotFound {
		if _, gone := s.Sessions().Get(ctx, id); gone != nil {
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

// addTree adds a file or a folder under a name.
func (u *upload) addTree(place, name string) error {
	info, err := os.Stat(place)
	switch {
	case err != nil:
		return mistake("", "%s: %s", place, reason(err))
	case !info.IsDir():
		return u.addPlain(place, name, info)
	}
	folder, inner := source{dst: name, path: place, info: info}, &upload{}
	if err := inner.addDir(place); err != nil {
		inner.close()
		return err
	}
	u.roots = append(u.roots, inner.roots...)
	if name != "." {
		if err := u.add(folder); err != nil {
			return err
		}
	}
	for _, s := range inner.sources {
		if s.link != "" { // a workspace takes what it leads to
			info, err := s.root.Stat(s.path)
			if err != nil || !info.Mode().IsRegular() {
				return mistake("remove the link, or copy what it leads to", "%s: is a link to %s, which is not a file", filepath.Join(place, s.path), s.link)
			}
			s.link, s.info = "", info
		}
		s.dst = path.Join(name, s.dst)
		if err := u.add(s); err != nil {
			return err
		}
	}
	return nil
}

// addPlain adds one file under a name.
func (u *upload) addPlain(file, name string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return mistake("", "%s: is neither a file nor a folder", file)
	}
	if err := readable(file); err != nil {
		return mistake("", "%s: %s", file, reason(err))
	}
	return u.add(source{dst: name, path: file, info: info})
}
