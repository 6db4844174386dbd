// Package shelf stores folders of installed packages, or of unpacked snapshots, for sandboxes to read (runtime.Root.Layers). Several processes may share a
// shelf. A process that uses a folder holds a lock on it, so that it is not swept. A folder without a key is removed when it is released.
package shelf

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/flock"
)

// Shelf is a folder of layers. Its methods are safe for concurrent use. The zero value stores nothing.
type Shelf struct {
	Dir  string // may be missing
	Keep int64  // bytes; above it, the least recently used layers are swept. A process learns of the layers of others when it sweeps
	Max  int64  // bytes of one layer
	// Links permits links in layers whose entries were already checked: hard links, and symbolic links with any target. Only a sandbox follows them.
	Links bool

	mu       sync.Mutex
	written  int64 // room of all layers that got a key in this process
	sweepAt  int64 // value of written above which all layers may exceed Keep; 0 before the first sweep
	reserved int64 // room of layers that are being made
}

// Layer is a folder that is held until Release.
type Layer struct {
	Dir      string
	Lock     []belljar.Package
	Resolved time.Time // when the versions were resolved
	Bytes    int64     // size of its files
	Files    int64     // folders and links included

	of   *Shelf
	lock *os.File
	once sync.Once
}

// Release ends the use of a layer, and removes it if it has no key and no other use. It may be called twice, and on nil.
func (l *Layer) Release() {
	if l == nil {
		return
	}
	l.Leave()
	if mark, err := os.ReadFile(l.Dir + lockExt); err == nil && len(mark) > 0 { // after the unlock, so that a later mark finds it free
		l.of.drop(record{Folder: filepath.Base(l.Dir), Gone: true}, string(mark[1:]))
	}
}

// Leave is Release at the end of a process whose sandboxes continue: it removes nothing.
func (l *Layer) Leave() {
	l.once.Do(func() {
		_ = flock.Unlock(l.lock)
		_ = l.lock.Close()
	})
}

// record is the content of <key>.json. The modification time of that file is the time of the layer's last use.
type record struct {
	Folder   string            `json:"folder"`
	Lock     []belljar.Package `json:"packages"`
	Resolved time.Time         `json:"resolved_at"`
	Bytes    int64             `json:"bytes"`
	Files    int64             `json:"files,omitempty"`
	Gone     bool              `json:"gone,omitempty"` // it was forgotten while it was held
	Boot     string            `json:"boot,omitempty"` // the boot during which the files are complete, since they were not synced; "" if they were
}

// Suffixes of names on a shelf.
const (
	recordExt = ".json"
	lockExt   = ".lock"
	newExt    = ".new"
)

// page is the unit to which a file's size is rounded up, in memory and on most disks.
const page = 4096

// room returns how much of [Shelf.Keep] a layer uses: a page for each entry covers folders, and the rounding of files.
func (r record) room() int64 { return r.Bytes + r.Files*page }

// maxEntries bounds the files and folders of one layer.
const maxEntries = 200_000

func (s *Shelf) in(name string) string { return filepath.Join(s.Dir, name) }

// Get returns the layer with a key, held, even if it was forgotten, as long as another use holds it; nil if there is none.
func (s *Shelf) Get(key string) (*Layer, error) {
	rec, err := s.read(key)
	if errors.Is(err, fs.ErrNotExist) || rec.lost() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l, err := s.hold(rec)
	if l != nil {
		now := time.Now()
		_ = os.Chtimes(s.in(key+recordExt), now, now)
	}
	return l, err
}

// Hold holds the layer in a folder of the shelf, for a sandbox of a previous process; nil if it was removed.
func (s *Shelf) Hold(dir string) (*Layer, error) {
	if filepath.Dir(dir) != filepath.Clean(s.Dir) {
		return nil, nil
	}
	return s.hold(record{Folder: filepath.Base(dir)})
}

// hold locks a layer; nil if it was removed, or is being removed.
func (s *Shelf) hold(rec record) (*Layer, error) {
	f, err := os.OpenFile(s.in(rec.Folder+lockExt), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := flock.Try(f, false); err != nil {
		_ = f.Close()
		if errors.Is(err, flock.ErrBusy) {
			err = nil
		}
		return nil, err
	}
	l := rec.layer(s)
	l.lock = f
	if info, err := os.Stat(l.Dir); err != nil || !info.IsDir() {
		l.Leave()
		return nil, nil
	}
	return l, nil
}

func (r record) layer(s *Shelf) *Layer {
	return &Layer{Dir: s.in(r.Folder), Lock: r.Lock, Resolved: r.Resolved, Bytes: r.Bytes, Files: r.Files, of: s}
}

// loosen marks a layer that has, or may soon have, no key: its release then removes it. The mark is in its lock file, where every process that
// holds the layer finds it: a byte, and the key that it had, if any, so that the release need not look through all keys.
func (s *Shelf) loosen(folder, key string) {
	f, err := os.OpenFile(s.in(folder+lockExt), os.O_WRONLY, 0)
	if err != nil {
		return // otherwise the next sweep finds it
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("-"+key), 0); err == nil { // never empty in between
		_ = f.Truncate(int64(1 + len(key)))
	}
}

func (s *Shelf) read(key string) (rec record, err error) {
	raw, err := os.ReadFile(s.in(key + recordExt))
	if err == nil && json.Unmarshal(raw, &rec) != nil {
		err = fs.ErrNotExist // another version wrote it
	}
	rec.Gone = rec.Gone || rec.lost()
	return rec, err
}

// lost reports whether a power cut may have damaged a layer that was not synced.
func (r record) lost() bool { return r.Boot != "" && r.Boot != boot() }

// boot is the id of the machine's boot, "" if it is not known.
func boot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

func (s *Shelf) write(key string, rec record) error {
	raw, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.Dir, "*"+newExt)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	var old record
	if err = errors.Join(err, f.Close()); err == nil {
		if rec.Gone {
			s.loosen(rec.Folder, key)
		} else {
			_ = os.Truncate(s.in(rec.Folder+lockExt), 0)
		}
		s.mu.Lock()
		old, _ = s.read(key)
		if err = os.Rename(f.Name(), s.in(key+recordExt)); err == nil && !rec.Gone && old.Folder != rec.Folder {
			s.written += rec.room()
		}
		s.mu.Unlock()
	}
	switch {
	case err != nil:
		_ = os.Remove(f.Name())
		s.loosen(rec.Folder, key)
	case old.Folder != "" && old.Folder != rec.Folder: // replaced
		s.loosen(old.Folder, key)
		s.drop(old, key)
	}
	return err
}

// Renew records that a new resolution returned the same versions as a key's layer.
func (s *Shelf) Renew(key string, now time.Time) error {
	rec, err := s.read(key)
	if err != nil {
		return err
	}
	rec.Resolved = now
	return s.write(key, rec)
}

// Put makes the layer of a key from a tar stream, in place of an older one, and returns it held. Its files are synced. The error is
// [ErrTooLarge], [ErrBad], or that of the disk.
func (s *Shelf) Put(key string, lock []belljar.Package, now time.Time, files io.Reader) (*Layer, error) {
	return s.put(key, record{Lock: lock, Resolved: now}, func(dir string, rec *record) (err error) {
		rec.Bytes, rec.Files, err = unpack(files, dir, s.Max, s.Links)
		if err = errors.Join(err, os.Chmod(dir, 0o755)); err == nil { // for the users of sandboxes
			err = flush(dir)
		}
		return err
	})
}

// PutTree makes the layer of a key as Put does, from the tar stream of a workspace that was checked before, with everything as it is there:
// modes, times, links, holes and user attributes. All belong to uid and gid. It does not wait for the disk: the layer counts until the machine
// is booted again, as do those of [Shelf.PutState] and [Shelf.Adopt].
func (s *Shelf) PutTree(key string, uid, gid int, now time.Time, files io.Reader) (*Layer, error) {
	return s.put(key, record{Resolved: now, Boot: boot()}, func(dir string, rec *record) (err error) {
		rec.Bytes, rec.Files, err = unpackTree(files, dir, s.Max, uid, gid)
		return err
	})
}

// PutState makes the layer of a key from a tar stream of files that only this process reads.
func (s *Shelf) PutState(key string, now time.Time, files io.Reader) (*Layer, error) {
	return s.put(key, record{Resolved: now, Boot: boot()}, func(dir string, rec *record) (err error) {
		rec.Bytes, rec.Files, err = unpack(files, dir, s.Max, false)
		return err
	})
}

// Make makes a layer by fill, in a folder that only this process can open. It has no key: it is removed when it is released, unless [Shelf.Adopt] gives it one.
func (s *Shelf) Make(fill func(dir string) error) (*Layer, error) {
	return s.make(&record{}, func(dir string, _ *record) error { return fill(dir) })
}

// Adopt gives a layer with so many bytes a key.
func (s *Shelf) Adopt(key string, l *Layer, bytes int64) error {
	return s.write(key, record{Folder: filepath.Base(l.Dir), Resolved: l.Resolved, Bytes: bytes, Boot: boot()})
}

// Keys returns the keys that have a layer.
func (s *Shelf) Keys() (keys []string) {
	entries, _ := os.ReadDir(s.Dir)
	for _, e := range entries {
		if key, is := strings.CutSuffix(e.Name(), recordExt); is {
			keys = append(keys, key)
		}
	}
	return keys
}

// Forget removes the layer of a key: now if it is not held, else at its last release.
func (s *Shelf) Forget(key string) {
	rec, err := s.read(key)
	if err == nil && !rec.Gone { // writing the record again could restore the key while a release removes the layer
		rec.Gone = true
		err = s.write(key, rec)
	}
	if err != nil {
		_ = os.Remove(s.in(key + recordExt)) // no key has it then
		return
	}
	s.drop(rec, key)
}

// Recall reverts Forget for a layer that is still held.
func (s *Shelf) Recall(key string) {
	if rec, err := s.read(key); err == nil && rec.Gone {
		rec.Gone = false
		_ = s.write(key, rec) // otherwise the layer is removed
	}
}

// put makes the layer of a key by fill.
func (s *Shelf) put(key string, rec record, fill func(dir string, rec *record) error) (*Layer, error) {
	l, err := s.make(&rec, fill)
	if err != nil {
		return nil, err
	}
	if err := s.write(key, rec); err != nil {
		l.Release()
		return nil, err
	}
	s.mu.Lock()
	full := s.written > s.sweepAt
	s.mu.Unlock()
	if full {
		s.Sweep()
	}
	return l, nil
}

// make makes a layer, held and without a key.
func (s *Shelf) make(rec *record, fill func(dir string, rec *record) error) (*Layer, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := s.newLock()
	if err != nil {
		return nil, err
	}
	dir := strings.TrimSuffix(lock.Name(), lockExt)
	rec.Folder = filepath.Base(dir)
	s.loosen(rec.Folder, "")
	l := rec.layer(s)
	l.lock = lock
	if err = os.Mkdir(dir, 0o700); err == nil {
		err = fill(dir, rec)
	}
	if err != nil {
		l.Release()
		return nil, err
	}
	l.Bytes, l.Files = rec.Bytes, rec.Files
	return l, nil
}

// newLock makes the lock of a layer. The lock is made before the folder, so that no sweep finds a folder without one.
func (s *Shelf) newLock() (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		lock, err := os.CreateTemp(s.Dir, "layer-*"+lockExt)
		if err != nil {
			return nil, err
		}
		if err = flock.Try(lock, false); err == nil && inPlace(lock) {
			return lock, nil
		}
		_ = lock.Close()
		if err != nil && !errors.Is(err, flock.ErrBusy) {
			return nil, err
		}
		// A sweep of another process removes it.
	}
}

// inPlace reports whether a file is still the one with its name.
func inPlace(f *os.File) bool {
	its, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(f.Name())
	return err == nil && os.SameFile(its, named)
}

// Sweep removes layers without a key, and the least recently used ones above Keep. Held layers stay, and count, forgotten ones too.
func (s *Shelf) Sweep() { s.sweep(0) }

// sweep is Sweep that leaves room for another layer.
func (s *Shelf) sweep(room int64) {
	s.mu.Lock()
	written, most := s.written, s.Keep-s.reserved-room
	s.mu.Unlock()
	entries, _ := os.ReadDir(s.Dir)
	type kept struct {
		key  string
		used time.Time
		record
	}
	var all []kept
	known := map[string]bool{}
	var total int64
	for _, e := range entries {
		key, is := strings.CutSuffix(e.Name(), recordExt)
		info, err := e.Info()
		if !is || err != nil {
			continue
		}
		rec, err := s.read(key)
		switch {
		case err != nil:
			continue
		case rec.Gone:
			if s.loosen(rec.Folder, key); !s.drop(rec, key) {
				total += rec.room()
			}
		default:
			all = append(all, kept{key, info.ModTime(), rec})
			total += rec.room()
		}
		known[rec.Folder] = true
	}
	for total > most && len(all) > 0 {
		oldest := 0
		for i := range all {
			if all[i].used.Before(all[oldest].used) {
				oldest = i
			}
		}
		if l := all[oldest]; s.drop(l.record, l.key) {
			total -= l.room()
		}
		all = append(all[:oldest], all[oldest+1:]...)
	}
	s.mu.Lock()
	s.sweepAt = written + max(s.Keep-total, 0)
	s.mu.Unlock()
	for _, e := range entries {
		name := e.Name()
		folder, isLock := strings.CutSuffix(name, lockExt)
		switch {
		case isLock && !known[folder]:
			s.loosen(folder, "")
			s.drop(record{Folder: folder}, "")
		case strings.HasSuffix(name, newExt):
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Hour { // its process was killed
				_ = os.RemoveAll(s.in(name))
			}
		}
	}
}

// seize locks a layer for its removal.
func (s *Shelf) seize(folder string) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(s.in(folder+lockExt), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := flock.Try(f, true); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// drop removes a layer that is not held, and the record of its key first, unless key is "". It reports whether it did. What the caller knows may be old:
// while the layer was held, it may have got a key, or been recalled.
func (s *Shelf) drop(rec record, key string) bool {
	f, err := s.seize(rec.Folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil {
		defer f.Close()
		defer flock.Unlock(f)
	}
	if !s.unname(rec, key) {
		return false
	}
	if err != nil { // it was removed
		return true
	}
	if err := os.RemoveAll(s.in(rec.Folder)); err != nil {
		return false
	}
	_ = os.Remove(s.in(rec.Folder + lockExt))
	return true
}

// unname removes the record of a key, unless it is of another layer by now. It reports whether the layer may be removed.
func (s *Shelf) unname(rec record, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key == "" {
		return !slices.ContainsFunc(s.Keys(), func(key string) bool {
			now, err := s.read(key)
			return err == nil && now.Folder == rec.Folder
		})
	}
	now, err := s.read(key)
	switch {
	case err != nil || now.Folder != rec.Folder:
		return true
	case rec.Gone && !now.Gone:
		return false
	}
	_ = os.Remove(s.in(key + recordExt))
	return true
}
