package image

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/layer"
	"github.com/belljar/belljar/internal/image/stream"
)

// Folders in the store's folder.
const (
	imagesFolder = "images" // one folder for each image: root, lock, used
	layersFolder = "layers" // one for each layer, by its digest: files, size
	tempFolder   = "tmp"    // files that are being made or deleted, with a lock that their process holds
	locksFolder  = "locks"  // for layers and images that are being made
	indexFile    = "index.json"
	indexLock    = "index.lock"
	tempIndex    = ".index-"
)

// disk is the store's folder, and the free room on its disk.
type disk struct{ o *Options }

// in returns a path below the store's folder.
func (d *disk) in(elem ...string) string {
	return filepath.Join(append([]string{d.o.Path}, elem...)...)
}

// mkdir makes a folder with these permissions, whatever the umask.
func mkdir(path string, mode fs.FileMode) error {
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// space is a folder for files that are being made or deleted. It is removed with its lock; the space of a killed
// process is swept.
type space struct {
	dir  string
	lock *lock
}

const spaceLock = ".lock"

// space makes an empty folder. The caller must close it.
func (d *disk) space() (*space, error) {
	for {
		id := randomName()
		l, err := tryLock(d.in(tempFolder, id+spaceLock), true)
		if errors.Is(err, errBusy) {
			continue // a sweep removed it, or the name exists
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

// in returns a path below the space.
func (sp *space) in(name string) string { return filepath.Join(sp.dir, name) }

// close deletes the remaining files of the space.
func (sp *space) close() error {
	err := layer.Remove(sp.dir)
	if err != nil {
		sp.lock.release() // a sweep retries
		return err
	}
	sp.lock.discard()
	return nil
}

// done closes a space. A failure only costs room until the space is swept.
func (d *disk) done(sp *space) {
	if err := sp.close(); err != nil {
		d.warn("unused files could not be deleted", "folder", sp.dir, "err", err)
	}
}

// keptFile is a file that is removed when it is closed.
type keptFile struct{ *os.File }

func (f keptFile) Close() error { return errors.Join(f.File.Close(), os.Remove(f.Name())) }

// keepIn returns a function that copies a stream to a file in dir, and opens the file.
func (d *disk) keepIn(dir string) func(r io.Reader) (io.ReadCloser, error) {
	return func(r io.Reader) (io.ReadCloser, error) {
		file, err := os.CreateTemp(dir, "packed-")
		if err != nil {
			return nil, fault.Wrap("keep a compressed stream", err)
		}
		f := keptFile{file}
		if _, err = io.Copy(f, stream.Limit(d.watch(r), d.o.mostBytes())); err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
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
