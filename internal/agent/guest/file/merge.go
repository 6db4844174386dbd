//go:build linux

package file

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/wire"
)

// staging holds the hidden folders at the top of the workspace in which merges are prepared.
type staging struct {
	moving sync.Mutex // one merge at a time moves its files
	swept  sync.Once  // by the first merge, or write of a file that needs a temporary name

	mu    sync.Mutex
	names map[string]struct{}
}

func (s *staging) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.names[name]
	return ok
}

func (s *staging) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = make(map[string]struct{})
	}
	s.names[name] = struct{}{}
}

func (s *staging) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, name)
}

// merge unpacks a stream below the request's path atomically: first into a staging folder, whose contents it then moves into
// place; with fresh they replace no file. Concurrent programs can make a merge fail, but cannot make it move anything out of the
// workspace.
func (f *fileOp) merge(fresh bool) error {
	stage, err := f.stage()
	if err != nil {
		return err
	}
	n, err := f.mergeFrom(stage, fresh)
	f.unstage(stage)
	if err != nil {
		return err
	}
	return f.s.reply(wire.Reply{Done: true, Bytes: n})
}

func (f *fileOp) mergeFrom(stage string, fresh bool) (int64, error) {
	staged := *f
	staged.name = path.Join(stage, f.name)
	n, err := staged.unpack(&unpacker{f: &staged, stage: true})
	if err != nil {
		return 0, err
	}
	f.w.staging.moving.Lock()
	defer f.w.staging.moving.Unlock()
	for range mergeTries {
		err = f.as(func() error {
			m := &merger{f: f, fresh: fresh}
			if err := m.plan(stage, "."); err != nil {
				return err
			}
			return m.move()
		})
		// A program has created or removed a file between the check and the move.
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return n, err
}

// mergeTries is the number of attempts if a program changes the same folder.
const mergeTries = 5

// stagePrefix begins the names of staging folders.
const stagePrefix = ".belljar-merge-"

// stage creates a staging folder.
func (f *fileOp) stage() (string, error) {
	unique, err := uniqueName()
	if err != nil {
		return "", err
	}
	f.w.staging.swept.Do(f.sweep)
	name := stagePrefix + unique
	f.w.staging.add(name)
	if err := f.as(func() error { return f.w.root.Mkdir(name, 0o700) }); err != nil {
		f.w.staging.drop(name)
		return "", err
	}
	return name, nil
}

// unstage removes a staging folder and its contents, except files that a program keeps there.
func (f *fileOp) unstage(name string) {
	_ = f.as(func() error { return f.w.removeTree(name) })
	f.w.staging.drop(name)
}

// staleMerge is the age at which no merge needs a staging folder any longer: merges take minutes.
const staleMerge = time.Hour

// sweep removes the staging folders and files of killed agents: the workspace may be a volume. Another agent may serve it at the same time.
func (f *fileOp) sweep() {
	var stale []string
	_ = f.as(func() error {
		dir, err := f.w.openDir(".")
		if err != nil {
			return err
		}
		defer dir.Close()
		for {
			names, err := dir.Readdirnames(removeBatch)
			for _, name := range names {
				if !strings.HasPrefix(name, stagePrefix) {
					continue
				}
				if info, err := f.w.root.Lstat(name); err == nil && time.Since(info.ModTime()) > staleMerge {
					stale = append(stale, name)
				}
			}
			if err != nil || len(names) == 0 {
				return nil
			}
		}
	})
	for _, name := range stale {
		f.w.staging.add(name)
		f.unstage(name)
	}
}

// step is one move of a merge.
type step struct {
	from, to string
	exchange bool // to exists, and moves to from
}

// merger moves staged files into place. Its methods run with the requester's rights.
type merger struct {
	f     *fileOp
	fresh bool // replace nothing
	steps []step
	from  dirCache
	to    dirCache
}

// plan plans how to move the contents of a staged folder into an existing folder. It changes nothing.
func (m *merger) plan(staged, to string) error {
	names, err := m.names(staged)
	if err != nil {
		return err
	}
	for _, base := range names {
		s := step{from: path.Join(staged, base), to: path.Join(to, base)}
		what, err := m.f.w.root.Lstat(s.from)
		if err != nil {
			return err
		}
		there, err := m.f.w.root.Lstat(s.to)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case what.IsDir() && there.IsDir():
			if err := m.plan(s.from, s.to); err != nil {
				return err
			}
			continue
		case what.IsDir():
			return &wire.Error{Code: wire.CodeExists, Message: s.to + " is not a directory", Path: s.to}
		case there.IsDir():
			return &wire.Error{Code: wire.CodeExists, Message: s.to + " is a directory", Path: s.to}
		case m.fresh:
			return &wire.Error{Code: wire.CodeExists, Message: s.to + " exists", Path: s.to}
		default:
			s.exchange = true
		}
		m.steps = append(m.steps, s)
	}
	return nil
}

// names lists a folder.
func (m *merger) names(name string) ([]string, error) {
	dir, err := m.f.w.openDir(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(0)
	sort.Strings(names)
	return names, err
}

// move makes the planned moves, or undoes those that it made.
func (m *merger) move() error {
	defer m.from.close()
	defer m.to.close()
	for i, s := range m.steps {
		if err := m.take(s); err != nil {
			for i > 0 {
				i--
				// A move that cannot be undone was changed by a program meanwhile, which now owns the result.
				_ = m.back(m.steps[i])
			}
			return err
		}
	}
	return nil
}

func (m *merger) take(s step) error { return m.rename(&m.from, s.from, &m.to, s.to, s.exchange) }

func (m *merger) back(s step) error { return m.rename(&m.to, s.to, &m.from, s.from, s.exchange) }

func (m *merger) rename(from *dirCache, old string, to *dirCache, name string, exchange bool) error {
	src, err := from.open(m.f.w, path.Dir(old))
	if err != nil {
		return err
	}
	dst, err := to.open(m.f.w, path.Dir(name))
	if err != nil {
		return err
	}
	flags := uint(unix.RENAME_NOREPLACE)
	if exchange {
		flags = unix.RENAME_EXCHANGE
	}
	err = unix.Renameat2(int(src.Fd()), path.Base(old), int(dst.Fd()), path.Base(name), flags)
	if exchange && (err == unix.EINVAL || err == unix.ENOSYS) { // gVisor, and some file systems
		err = swap(int(src.Fd()), path.Base(old), int(dst.Fd()), path.Base(name))
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: old, New: name, Err: err}
	}
	return nil
}

// aside is the temporary name of one file during a swap.
const aside = ".belljar-aside"

// swap exchanges two files if the kernel cannot do so atomically: for a moment the second name is missing. A failure leaves both
// unchanged.
func swap(src int, old string, dst int, name string) error {
	const flags = unix.RENAME_NOREPLACE
	if err := unix.Renameat2(dst, name, src, aside, flags); err != nil {
		return err
	}
	if err := unix.Renameat2(src, old, dst, name, flags); err != nil {
		return errors.Join(err, unix.Renameat2(src, aside, dst, name, flags))
	}
	if err := unix.Renameat2(src, aside, src, old, flags); err != nil {
		back := unix.Renameat2(dst, name, src, old, flags)
		return errors.Join(err, back, unix.Renameat2(src, aside, dst, name, flags))
	}
	return nil
}

// dirCache caches the folder that was opened last: successive files often share one.
type dirCache struct {
	name string
	dir  *os.File
}

func (c *dirCache) open(w *Workspace, name string) (*os.File, error) {
	if c.dir != nil && c.name == name {
		return c.dir, nil
	}
	c.close()
	dir, err := w.openDir(name)
	if err != nil {
		return nil, err
	}
	c.name, c.dir = name, dir
	return dir, nil
}

func (c *dirCache) close() {
	if c.dir != nil {
		c.dir.Close()
		c.dir = nil
	}
}
