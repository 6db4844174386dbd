//go:build linux

package file

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sort"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// Limits of a listing. The agent has little memory, and a program may build the tree to exhaust it.
const (
	maxDepth   = 255
	maxEntries = 100_000
	walkBatch  = 256       // entries in one answer
	walkBytes  = 256 << 10 // approximate size of one reply
	walkNames  = 8 << 20   // bytes of names that wait to be visited
	walkChunk  = 1024      // names read at a time
	walkLook   = 32        // entries described at a time
	walkOpen   = 16        // directories that a walk keeps open
	// walkTime limits how long a walk reads folders that have more names than its limit: a program may make millions. Then the names
	// that it returns are some of them.
	walkTime = 3 * time.Second
)

// scratchName is the workspace's folder for temporary files of hosts and for builds. Only requests that name it see it.
const scratchName = ".tmp"

// hiddenNames is the maximum number of hidden names in one folder: scratchName, and one of our temporary folders.
const hiddenNames = 2

// errCut ends a walk at its limit.
var errCut = errors.New("listing cut")

// list serves readdir and, with more depth, walk.
func (f *fileOp) list(depth int) error {
	limit := maxEntries
	if f.req.Limit > 0 {
		limit = int(min(f.req.Limit, maxEntries))
	}
	var batch []wire.FileInfo
	size, cut := 0, false
	w := &walker{f: f, left: limit, visit: func(info wire.FileInfo, _ *os.Root, _ string) error {
		batch = append(batch, info)
		size += len(info.Path) + len(info.Target) + 128
		if len(batch) < walkBatch && size < walkBytes {
			return nil
		}
		full := batch
		batch, size = nil, 0
		if err := f.s.reply(wire.Reply{Files: full, More: true}); err != nil {
			return fault.ErrDisconnected
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

// walker visits the entries of a directory: sorted, parents first, without following links. It accesses the file system with the
// requester's rights. However large the tree, it uses few descriptors and bounded memory.
type walker struct {
	f     *fileOp
	left  int       // entries that may still be visited
	held  int       // bytes of names that wait to be visited
	depth int       // directories above this one
	cut   bool      // an entry was too deep
	all   bool      // an unreadable entry is an error instead of being skipped
	until time.Time // of walkTime
	visit func(info wire.FileInfo, dir *os.Root, base string) error
}

// start walks a directory of the workspace. Paths are relative to the workspace.
func (w *walker) start(name string, depth int) error {
	dir, err := w.open(name)
	if err != nil {
		return err
	}
	return w.walk(dir, name, depth)
}

// open opens a directory by its path.
func (w *walker) open(name string) (dir *os.Root, err error) {
	err = w.f.as(func() error {
		return w.f.w.within(name, true, func(name string) (err error) {
			dir, err = openRoot(w.f.w.root, name)
			return err
		})
	})
	return dir, err
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
	defer func() {
		if dir != nil {
			dir.Close()
		}
	}()
	names, more, err := w.names(dir, depth == 1)
	if err != nil {
		return err
	}
	w.depth++
	waiting := 0
	for _, name := range names {
		waiting += nameCost(name)
	}
	w.held += waiting
	defer func() {
		w.depth--
		w.held -= waiting
	}()
	for len(names) > 0 {
		some := names[:min(walkLook, len(names))]
		names = names[len(some):]
		if dir == nil { // closed on the way down
			if dir, err = w.open(shown); err != nil {
				dir = nil
				return passing(err)
			}
		}
		infos, err := w.describe(dir, shown, some)
		if err != nil {
			return err
		}
		for _, info := range infos {
			if w.left == 0 {
				return errCut
			}
			w.left--
			base := path.Base(info.Path)
			if dir == nil {
				if dir, err = w.open(shown); err != nil {
					dir = nil
					return passing(err)
				}
			}
			if err := w.visit(info, dir, base); err != nil {
				return err
			}
			if info.Type != "dir" {
				continue
			}
			if depth == 1 {
				w.cut = w.cut || shown != w.f.name
				continue
			}
			sub, err := w.enter(dir, base)
			if w.all && errors.Is(err, fs.ErrPermission) {
				return denied(info.Path)
			}
			if err = passing(err); err != nil {
				return err
			}
			if sub == nil {
				continue
			}
			if w.depth >= walkOpen {
				dir.Close()
				dir = nil
			}
			err = w.walk(sub, info.Path, depth-1)
			if w.all && errors.Is(err, fs.ErrPermission) {
				return denied(info.Path)
			}
			if err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
		}
	}
	if more {
		return errCut
	}
	return nil
}

// denied returns the error for an inaccessible path below the requested one.
func denied(name string) error {
	return &wire.Error{Code: wire.CodeDenied, Message: name + ": permission denied", Path: name}
}

// enter opens a directory in dir.
func (w *walker) enter(dir *os.Root, base string) (sub *os.Root, err error) {
	err = w.f.as(func() (err error) {
		sub, err = openRoot(dir, base)
		return err
	})
	return sub, err
}

// passing drops errors for files that are inaccessible to this user or changed during the walk.
func passing(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || fault.IsEscape(err) {
		return nil
	}
	return err
}

// nameCost approximates the memory of a name in bytes.
func nameCost(name string) int { return len(name) + 16 }

// names lists dir, sorted; more means that it has further entries. It then returns the first names, and with foldersFirst the folders
// ahead of the rest.
func (w *walker) names(dir *os.Root, foldersFirst bool) (names []string, more bool, err error) {
	d, err := w.entries(dir)
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	return w.first(d, foldersFirst)
}

// first is names of an open directory. After the limit, it reads only until it knows of a further entry.
func (w *walker) first(d fs.ReadDirFile, foldersFirst bool) (names []string, more bool, err error) {
	if w.until.IsZero() {
		w.until = time.Now().Add(walkTime)
	}
	var folders []string
	keep, size := w.left+hiddenNames, 0 // hidden folders do not count against the limit
	prune := func() {
		if len(folders)+len(names) <= keep {
			return
		}
		more, size = true, 0
		for _, list := range []*[]string{&folders, &names} {
			sort.Strings(*list)
			*list = (*list)[:min(keep, len(*list))]
			keep -= len(*list)
			for _, name := range *list {
				size += nameCost(name)
			}
		}
		keep = w.left + hiddenNames
	}
	for {
		some, err := d.ReadDir(walkChunk)
		for _, e := range some {
			size += nameCost(e.Name())
			if foldersFirst && e.IsDir() {
				folders = append(folders, e.Name())
			} else {
				names = append(names, e.Name())
			}
		}
		if errors.Is(err, io.EOF) || len(some) == 0 {
			break
		}
		if err != nil {
			return nil, false, err
		}
		if w.left > 0 && len(folders)+len(names) > 2*keep {
			prune()
		}
		if w.held+size > walkNames || len(folders)+len(names) > keep && (w.left == 0 || time.Now().After(w.until)) {
			more = true
			break
		}
	}
	prune()
	sort.Strings(folders)
	sort.Strings(names)
	if names = append(folders, names...); len(names) <= w.left {
		sort.Strings(names)
	}
	return slices.Compact(names), more, nil // a name that is removed and made again meanwhile comes twice
}

// entries opens dir for reading. Unlike a file of an [os.Root], this one does not describe each entry in order to report its type.
func (w *walker) entries(dir *os.Root) (d *os.File, err error) {
	err = w.f.as(func() error {
		opened, err := dir.Open(".")
		if err != nil {
			return err
		}
		defer opened.Close()
		fd, err := unix.FcntlInt(opened.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			d = os.NewFile(uintptr(fd), ".")
		}
		return err
	})
	return d, err
}

// describe describes some entries of dir. It skips those removed meanwhile.
func (w *walker) describe(dir *os.Root, shown string, names []string) (infos []wire.FileInfo, err error) {
	infos = make([]wire.FileInfo, 0, len(names))
	err = w.f.as(func() error {
		for _, base := range names {
			at := path.Join(shown, base)
			if at == scratchName || w.f.w.staging.has(at) {
				continue
			}
			info, err := describe(dir, base, at)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL) {
				continue // removed or replaced meanwhile
			}
			if err != nil {
				return err
			}
			infos = append(infos, info)
		}
		return nil
	})
	return infos, err
}
