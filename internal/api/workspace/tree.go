package workspace

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

const (
	maxNodes = 10_000 // entries that one request examines
	maxLinks = 500    // links of a folder that are followed: each is a request to the other server in the mode remote
	maxLooks = 8      // links that are followed at the same time
	// lookTime limits the listing of a tree, and then the look at its links.
	lookTime = 5 * time.Second
)

// entry is one entry of a folder.
type entry struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Dir  bool   `json:"is_dir"`
	Size *int64 `json:"size,omitempty"`
}

// tree is the answer of GET /api/tree.
type tree struct {
	Entries []entry `json:"entries"`
	Path    string  `json:"path"`
	cut
	Visited int `json:"total_visited,omitempty"` // entries that were examined, if there are more
}

// cut is the limit that an answer has reached, if any.
type cut struct {
	Truncated bool   `json:"truncated,omitempty"`
	Reason    string `json:"truncation_reason,omitempty"` // node_limited | depth_limited | time_limited
}

// tree lists one folder: folders first, then by name.
func (c *call) tree(p string) (any, error) {
	ctx, stop := context.WithTimeout(c.r.Context(), lookTime)
	defer stop()
	list, reason, err := c.look(ctx, p, false)
	if err != nil && belljar.CodeOf(err) != belljar.CodeNotFound { // a missing folder has no entries
		return nil, explained(err, p)
	}
	out := tree{Entries: []entry{}, Path: p, cut: reason}
	if err := reserve(c, c.door.opts.Bodies, sizeOf(list.Entries)); err != nil {
		return nil, err
	}
	ctx, stop = context.WithTimeout(c.r.Context(), lookTime) // without the wait for memory
	defer stop()
	dirs, all := leadToDirs(ctx, c, p, list.Entries)
	for i, dir := range dirs {
		e := list.Entries[i]
		it := entry{Name: path.Base(e.Path), Path: e.Path, Dir: dir}
		if !it.Dir {
			it.Size = &e.Size
		}
		out.Entries = append(out.Entries, it)
	}
	if ctx.Err() != nil { // links that were not followed are files
		out.cut = cut{true, "time_limited"}
	} else if !all {
		out.cut = cut{true, "node_limited"}
	}
	if out.Truncated {
		out.Visited = len(list.Entries)
	}
	slices.SortStableFunc(out.Entries, func(a, b entry) int {
		if a.Dir != b.Dir && a.Dir {
			return -1
		} else if a.Dir != b.Dir {
			return 1
		}
		return cmp.Or(strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return tagged{out}, nil
}

// sizeOf returns the most bytes that an answer with these entries has. Each has its path, and parts of it as its name or folder.
func sizeOf(list []belljar.FileEntry) (n int64) {
	for _, e := range list {
		n += 2*api.Escaped*int64(len(e.Path)) + 128
	}
	return n
}

// leadToDirs reports for each entry of a folder whether it is a folder, or a link to one, and whether it has followed all links.
func leadToDirs(ctx context.Context, c *call, p string, list []belljar.FileEntry) (dirs []bool, all bool) {
	dirs = make([]bool, len(list))
	slots, links := make(chan struct{}, maxLooks), 0
	var failed atomic.Bool
	folder := sync.OnceValue(func() string { return realFolder(ctx, c, p) })
	var work sync.WaitGroup
	for i, e := range list {
		if e.Type != "symlink" {
			dirs[i] = e.Type == "dir"
			continue
		}
		if links++; links > maxLinks {
			continue
		}
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			if strings.HasPrefix(e.Target, "..") { // relative to the folder that p leads to
				e.Target = path.Join(c.Root, folder(), e.Target)
			}
			dir, err := c.leadsToDir(ctx, e)
			if dirs[i] = dir; err != nil {
				failed.Store(true)
			}
		})
	}
	work.Wait()
	return dirs, links <= maxLinks && !failed.Load()
}

// look lists a folder. It returns no entries if the listing takes until ctx ends.
func (c *call) look(ctx context.Context, p string, recursive bool) (belljar.FileList, cut, error) {
	list, err := c.list(ctx, p, recursive)
	switch {
	case err == nil && list.Truncated:
		return list, cut{true, "node_limited"}, nil
	case err != nil && ctx.Err() != nil && c.r.Context().Err() == nil:
		return belljar.FileList{}, cut{true, "time_limited"}, nil
	}
	return list, cut{}, err
}

// list lists a folder, or a link to a folder. A file has no entries.
func (c *call) list(ctx context.Context, p string, recursive bool) (belljar.FileList, error) {
	q := belljar.FileQuery{Path: p, Recursive: recursive, Limit: maxNodes}
	list, err := c.Engine.Files().List(ctx, c.Session, q)
	if err != nil || len(list.Entries) != 1 || list.Entries[0].Path != p {
		return list, err
	}
	target, ok, err := c.target(ctx, list.Entries[0])
	if !ok || target.Type != "dir" {
		return belljar.FileList{}, err
	}
	q.Path = target.Path
	list, err = c.Engine.Files().List(ctx, c.Session, q)
	for i, e := range list.Entries {
		below := e.Path
		if target.Path != "." {
			below = strings.TrimPrefix(below, target.Path+"/")
		}
		list.Entries[i].Path = path.Join(p, below)
	}
	return list, err
}

// realFolder follows the links in the path of a folder; if it cannot, it returns the path.
func realFolder(ctx context.Context, c *call, p string) string {
	at := "."
	for name := range strings.SplitSeq(p, "/") {
		e, err := c.Engine.Files().Stat(ctx, c.Session, path.Join(at, name))
		to, ok, _ := c.target(ctx, e)
		if err != nil || !ok {
			return p
		}
		at = to.Path
	}
	return at
}

// target follows an entry's links and returns the target in the workspace; an entry that is no link
// is its own target. A link that leads to no place in the workspace is no error.
func (c *call) target(ctx context.Context, e belljar.FileEntry) (_ belljar.FileEntry, ok bool, err error) {
	for range 8 {
		if e.Type != "symlink" {
			return e, true, nil
		}
		to := e.Target
		if path.IsAbs(to) {
			below, ok := strings.CutPrefix(path.Clean(to)+"/", c.Root+"/")
			if !ok {
				return e, false, nil
			}
			to = path.Clean("./" + below)
		} else if to = path.Join(path.Dir(e.Path), to); to == ".." || strings.HasPrefix(to, "../") {
			return e, false, nil
		}
		if to, err = belljar.CleanPath(to); err != nil {
			return e, false, nil
		}
		e, err = c.Engine.Files().Stat(ctx, c.Session, to)
		switch belljar.CodeOf(err) {
		case "":
		case belljar.CodeNotFound, belljar.CodePathEscapes, belljar.CodeInvalidRequest, belljar.CodeConflict: // the last below a file
			return e, false, nil
		default:
			return e, false, err
		}
	}
	return e, e.Type != "symlink", nil
}

func (c *call) leadsToDir(ctx context.Context, e belljar.FileEntry) (bool, error) {
	target, ok, err := c.target(ctx, e)
	return ok && target.Type == "dir", err
}

// isDir reports whether a path is a folder, or a link to one.
func (c *call) isDir(p string) (is bool, err error) {
	e, err := c.Engine.Files().Stat(c.r.Context(), c.Session, p)
	if err == nil {
		is, err = c.leadsToDir(c.r.Context(), e)
	}
	return is, err
}
