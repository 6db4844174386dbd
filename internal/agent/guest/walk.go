//go:build linux

package guest

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"sort"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Bounds of a listing.
const (
	maxDepth   = 255
	maxEntries = 100_000
	walkBatch  = 256
)

// errCut ends a walk at its bound.
var errCut = errors.New("listing cut")

// list answers readdir and, with more depth, walk.
func (f *fileOp) list(depth int) error {
	limit := maxEntries
	if f.req.Limit > 0 {
		limit = int(min(f.req.Limit, maxEntries))
	}
	var batch []wire.FileInfo
	cut := false
	w := &walker{f: f, left: limit, visit: func(info wire.FileInfo, _ *os.Root, _ string) error {
		batch = append(batch, info)
		if len(batch) < walkBatch {
			return nil
		}
		full := batch
		batch = nil
		if err := f.s.reply(wire.Reply{Files: full, More: true}); err != nil {
			return errDisconnected
		}
		return nil
	}}
	err := w.start(f.name, depth)
	if errors.Is(err, errCut) {
		cut, err = true, nil
	}
	if err != nil {
		return err
	}
	return f.s.reply(wire.Reply{Files: batch, Cut: cut || w.cut})
}

// walker visits what is in a directory: sorted, parents first, links not followed. Each look at the file system uses
// the requester's rights.
type walker struct {
	f     *fileOp
	left  int  // entries that may still be visited
	cut   bool // something was too deep
	visit func(info wire.FileInfo, dir *os.Root, base string) error
}

// start walks a directory of the workspace. Paths are told relative to the workspace.
func (w *walker) start(name string, depth int) error {
	var dir *os.Root
	err := w.f.as(func() error {
		return w.f.a.within(name, true, func(name string) (err error) {
			dir, err = openRoot(w.f.a.root, name)
			return err
		})
	})
	if err != nil {
		return err
	}
	return w.walk(dir, name, depth)
}

// openRoot opens a directory, and nothing else.
func openRoot(root *os.Root, name string) (*os.Root, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: unix.ENOTDIR}
	}
	return root.OpenRoot(name)
}

// walk visits the entries of dir, which it closes.
func (w *walker) walk(dir *os.Root, shown string, depth int) error {
	defer dir.Close()
	var infos []wire.FileInfo
	var more bool
	err := w.f.as(func() (err error) {
		infos, more, err = readEntries(dir, shown, w.left)
		return err
	})
	if err != nil {
		return err
	}
	for _, info := range infos {
		if w.f.a.staging.has(info.Path) {
			continue
		}
		if w.left == 0 {
			return errCut
		}
		w.left--
		base := path.Base(info.Path)
		if err := w.visit(info, dir, base); err != nil {
			return err
		}
		if info.Type != "dir" || depth == 1 {
			w.cut = w.cut || info.Type == "dir" && depth == 1 && shown != w.f.name
			continue
		}
		var sub *os.Root
		err := w.f.as(func() (err error) {
			sub, err = openRoot(dir, base)
			return err
		})
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue // not for this user, or gone meanwhile
		}
		if err != nil {
			return err
		}
		if err := w.walk(sub, info.Path, depth-1); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	if more {
		return errCut
	}
	return nil
}

// readEntries describes at most limit entries of dir, sorted by name; more says that there are others.
func readEntries(dir *os.Root, shown string, limit int) (infos []wire.FileInfo, more bool, err error) {
	d, err := dir.Open(".")
	if err != nil {
		return nil, false, err
	}
	names, err := d.Readdirnames(limit + 1)
	d.Close()
	if len(names) == 0 {
		return nil, false, nil // its end, which Readdirnames reports as an error
	}
	sort.Strings(names)
	if len(names) > limit {
		names, more = names[:limit], true
	}
	infos = make([]wire.FileInfo, 0, len(names))
	for _, base := range names {
		info, err := describe(dir, base, path.Join(shown, base))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL) {
			continue // gone, or another thing, meanwhile
		}
		if err != nil {
			return nil, false, err
		}
		infos = append(infos, info)
	}
	return infos, more, nil
}
