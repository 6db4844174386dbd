package image

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/belljar/belljar/internal/image/fault"
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

// disk is the store's folder, and the room around it.
type disk struct{ o *Options }

// in is a path below the store's folder.
func (d *disk) in(elem ...string) string {
	return filepath.Join(append([]string{d.o.Path}, elem...)...)
}

// mkdir makes a folder with these permissions, whatever the process keeps from its files (umask).
func mkdir(path string, mode fs.FileMode) error {
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// space is a folder for what is being made or deleted. It goes with its lock: what a killed process leaves is swept.
type space struct {
	dir  string
	lock *lock
}

const spaceLock = ".lock"

// space makes an empty folder for the caller, who closes it.
func (d *disk) space() (*space, error) {
	for {
		id := randomName()
		l, err := tryLock(d.in(tempFolder, id+spaceLock), true)
		if errors.Is(err, errBusy) {
			continue // a sweep was there first, or chance
		}
		if err != nil {
			return nil, fault.Wrap("make a folder to work in", err)
		}
		dir := d.in(tempFolder, id)
		if err := mkdir(dir, 0o711); err != nil {
			l.discard()
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			return nil, fault.Wrap("make a folder to work in", err)
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
func (d *disk) done(sp *space) {
	if err := sp.close(); err != nil {
		d.warn("unused files could not be deleted", "folder", sp.dir, "err", err)
	}
}

func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// sweep deletes the spaces of processes that are gone.
func (d *disk) sweep() error {
	entries, err := os.ReadDir(d.in(tempFolder))
	if err != nil {
		return fault.Wrap("look for what was left half done", err)
	}
	for _, e := range entries {
		id := strings.TrimSuffix(e.Name(), spaceLock)
		if id == e.Name() && e.IsDir() {
			continue // its lock is next to it, or it is not ours
		}
		l, err := tryLock(d.in(tempFolder, e.Name()), true)
		if err != nil {
			continue
		}
		d.done(&space{dir: d.in(tempFolder, id), lock: l})
	}
	return nil
}

func (d *disk) now() time.Time {
	if d.o.Clock != nil {
		return d.o.Clock()
	}
	return time.Now()
}

func (d *disk) warn(message string, args ...any) {
	if d.o.Logger != nil {
		d.o.Logger.Warn(message, args...)
	}
}
