//go:build linux

package roster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/lockfile"
)

const (
	lockSuffix = ".lock"
	recordName = "record.json"
)

// Roster is a folder of entries. Safe for concurrent use, by any number of processes.
type Roster struct {
	dir   string // below the above folder
	above []string
	valid func(name string) bool
}

// Open makes a roster's folder: names, each below the previous one, in the folder top. Each of these folders must belong to us alone,
// because another user's folder could contain forged sockets and records. valid reports whether a name is valid for an entry; other
// names in the folder are ignored.
func Open(top string, names []string, valid func(name string) bool) (*Roster, error) {
	r := &Roster{above: []string{top}, valid: valid}
	for _, name := range names {
		r.above = append(r.above, filepath.Join(r.above[len(r.above)-1], name))
	}
	r.dir = r.above[len(r.above)-1]
	return r, r.make()
}

// Sibling returns the roster of another name in the same folder, which need not exist.
func (r *Roster) Sibling(name string) *Roster {
	other := *r
	other.dir = filepath.Join(filepath.Dir(r.dir), name)
	other.above = append(append([]string{}, r.above[:len(r.above)-1]...), other.dir)
	return &other
}

// make makes the folders. Other processes remove empty folders when they end, also between two steps of ours.
func (r *Roster) make() (err error) {
	for range 100 {
		if err = r.tryMake(); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

func (r *Roster) tryMake() error {
	for _, dir := range r.above {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		if st := info.Sys().(*syscall.Stat_t); !info.IsDir() || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
			return fmt.Errorf("%s is not a folder that only we can write to", dir)
		}
	}
	return nil
}

// Dir returns the roster's folder.
func (r *Roster) Dir() string { return r.dir }

// Folder returns the path of an entry's files.
func (r *Roster) Folder(name string) string { return filepath.Join(r.dir, name) }

// Lock returns the path of an entry's lock file.
func (r *Roster) Lock(name string) string { return filepath.Join(r.dir, name+lockSuffix) }

// Claim makes a new entry and returns its lock, which the caller must close. fs.ErrExist if the name is taken.
func (r *Roster) Claim(name string) (*os.File, error) {
	taken := fmt.Errorf("%s: %w", name, fs.ErrExist)
	lock, err := r.Take(name, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		if _, statErr := os.Lstat(r.Folder(name)); statErr == nil {
			return nil, taken
		}
		lock, err = r.Take(name, unix.LOCK_EX) // a sweeper has our new lock file, and will unlink it
	}
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(r.Folder(name), 0o700); err != nil {
		lock.Close()
		if errors.Is(err, fs.ErrExist) {
			return nil, taken
		}
		os.Remove(r.Lock(name))
		return nil, err
	}
	return lock, nil
}

// Take locks an entry's lock file with [lockfile.Open]. A sweeper may unlink the file meanwhile. If the folder is missing, because
// another process found it empty at its end, or because everything above it was cleaned up, Take makes it again.
func (r *Roster) Take(name string, how int) (*os.File, error) {
	for {
		f, err := lockfile.Open(r.Lock(name), os.O_CREATE|os.O_RDWR, how)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if err := r.make(); err != nil {
			return nil, err
		}
	}
}

// Rename renames an entry; fs.ErrExist if the new name is taken. A process that looks at either name meanwhile finds its lock held.
// reached, unless nil, is called at each point, for tests that stop there.
func (r *Roster) Rename(from, to string, reached func(point string)) error {
	at := func(point string) {
		if reached != nil {
			reached(point)
		}
	}
	if err := os.Link(r.Lock(from), r.Lock(to)); err != nil {
		return err
	}
	at(PointLinked)
	_, err := os.Lstat(r.Folder(to))
	if err == nil {
		err = fmt.Errorf("%s: %w", to, fs.ErrExist)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(r.Folder(from), r.Folder(to))
	}
	if err != nil {
		return errors.Join(err, os.Remove(r.Lock(to)))
	}
	at(PointMoved)
	return os.Remove(r.Lock(from))
}

// Points of [Roster.Rename].
const (
	PointLinked = "linked" // the lock has both names, the folder the old one
	PointMoved  = "moved"  // the lock has both names, the folder the new one
)

// Forget removes an entry's files. It is idempotent.
func (r *Roster) Forget(name string) error {
	if err := os.RemoveAll(r.Folder(name)); err != nil {
		return err
	}
	if err := os.Remove(r.Lock(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// List returns the names of all entries that have any file.
func (r *Roster) List() ([]string, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	seen := map[string]bool{}
	var names []string
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), lockSuffix)
		if !seen[name] && r.valid(name) {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names, nil
}

// Write replaces an entry's record, as JSON, atomically.
func (r *Roster) Write(name string, record any) error {
	raw, err := json.Marshal(record)
	if err != nil {
		return err
	}
	tmp := filepath.Join(r.Folder(name), recordName+".new")
	if err := os.WriteFile(tmp, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(r.Folder(name), recordName))
}

// Read reads an entry's record; fs.ErrNotExist if it has none.
func (r *Roster) Read(name string, record any) error {
	raw, err := os.ReadFile(filepath.Join(r.Folder(name), recordName))
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, record)
}
