package image

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar/internal/image/layer"
)

// What is in the store's folder.
const (
	imagesFolder = "images" // one folder for each image: root, lock, used
	layersFolder = "layers" // one for each layer, by its digest: files, size
	tempFolder   = "tmp"    // what is being made or deleted, with a lock that its process holds
	locksFolder  = "locks"  // for layers and images while they are made
	indexFile    = "index.json"
	indexLock    = "index.lock"
	tempIndex    = ".index-"
)

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.o.Path}, elem...)...)
}

// mkdir makes a folder with these permissions, whatever the process keeps from its files (umask).
func mkdir(path string, mode fs.FileMode) error {
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// space is a folder for what is not done yet, or no more. It goes with its lock: what a killed process leaves is swept.
type space struct {
	dir  string
	lock *lock
}

const spaceLock = ".lock"

// space makes an empty folder for the caller, who closes it.
func (s *Store) space() (*space, error) {
	for {
		id := randomName()
		l, err := tryLock(s.path(tempFolder, id+spaceLock), true)
		if errors.Is(err, errBusy) {
			continue // a sweep was there first, or chance
		}
		if err != nil {
			return nil, failed("make a folder to work in", err)
		}
		dir := s.path(tempFolder, id)
		if err := mkdir(dir, 0o711); err != nil {
			l.discard()
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			return nil, failed("make a folder to work in", err)
		}
		return &space{dir: dir, lock: l}, nil
	}
}

// in is a path below the space.
func (sp *space) in(name string) string { return filepath.Join(sp.dir, name) }

// close deletes what is still in the space.
func (sp *space) close() error {
	err := layer.Remove(sp.dir)
	if err != nil {
		sp.lock.release() // a sweep tries again
		return err
	}
	sp.lock.discard()
	return nil
}

// done closes a space where a failure only costs room, until it is swept.
func (s *Store) done(sp *space) {
	if err := sp.close(); err != nil {
		s.warn("unused files could not be deleted", "folder", sp.dir, "err", err)
	}
}

func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// layersWait is how long the layers of a pull that came to nothing wait for the next one.
const layersWait = time.Hour

// sweep deletes what processes that are no more have left half done: spaces, folders of images that the index does not
// know; and layers that have waited for an image long enough. Whoever is at work holds locks that keep his away from it.
func (s *Store) sweep(ctx context.Context) error {
	entries, err := os.ReadDir(s.path(tempFolder))
	if err != nil {
		return failed("look for what was left half done", err)
	}
	for _, e := range entries {
		id := strings.TrimSuffix(e.Name(), spaceLock)
		if id == e.Name() && e.IsDir() {
			continue // its lock is beside it, or it is not ours
		}
		l, err := tryLock(s.path(tempFolder, e.Name()), true)
		if err != nil {
			continue
		}
		s.done(&space{dir: s.path(tempFolder, id), lock: l})
	}
	if err := s.sweepImages(); err != nil {
		return err
	}
	_, err = s.pruneLayers(ctx, layersWait)
	return err
}

// sweepImages moves folders that the index does not know out of the way: their process was killed just before it wrote
// the index, or just after.
func (s *Store) sweepImages() error {
	entries, err := os.ReadDir(s.path(imagesFolder))
	if err != nil {
		return failed("look for what was left half done", err)
	}
	v, err := s.index.load()
	if err != nil {
		return err
	}
	unfinished, err := filepath.Glob(s.path(tempIndex + "*"))
	if err != nil || len(strays(entries, v)) == 0 && len(s.lost(v)) == 0 && len(unfinished) == 0 {
		return err
	}
	sp, err := s.space()
	if err != nil {
		return err
	}
	defer s.done(sp)
	l, err := tryLock(s.path(indexLock), true)
	if errors.Is(err, errBusy) {
		return nil // somebody is at work, perhaps on one of these; they do no harm
	}
	if err != nil {
		return failed("lock the index", err)
	}
	defer l.release()
	if v, err = s.index.load(); err != nil {
		return err
	}
	if err := s.dropLost(v); err != nil {
		return err
	}
	for _, name := range unfinished {
		_ = os.Remove(name)
	}
	for _, name := range strays(entries, v) {
		if err := s.moveImage(name, sp); err != nil && !errors.Is(err, errBusy) {
			s.warn("a folder that no image has could not be moved away", "folder", name, "err", err)
		}
	}
	return nil
}

func strays(entries []fs.DirEntry, v *view) (names []string) {
	known := map[string]bool{}
	for _, r := range v.records {
		known[r.Folder] = true
	}
	for _, e := range entries {
		if !known[e.Name()] {
			names = append(names, e.Name())
		}
	}
	return names
}

// lost lists the images whose files are gone.
func (s *Store) lost(v *view) (lost []*record) {
	for _, r := range v.records {
		if !s.present(r) {
			lost = append(lost, r)
		}
	}
	return lost
}

// dropLost takes images whose files are gone off the index. The caller holds its lock.
func (s *Store) dropLost(v *view) error {
	lost := s.lost(v)
	if len(lost) == 0 {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(v.records), func(r *record) bool { return slices.Contains(lost, r) })
	for _, r := range lost {
		s.warn("the files of an image are gone", "image", r.ref(), "digest", r.Digest)
	}
	return failed("write the index", s.index.write(rest, v, s.now()))
}

// moveImage takes an image's folder out of sight; [errBusy] while somebody uses it. The caller holds the index's lock.
func (s *Store) moveImage(folder string, sp *space) error {
	dir := s.path(imagesFolder, folder)
	l, err := tryLock(filepath.Join(dir, lockFile), true)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer l.release()
	err = os.Rename(dir, sp.in(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
