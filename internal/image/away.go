package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/belljar/belljar/internal/image/fault"
)

// sweep moves folders that are not in the index out of the way: their process was killed just before or after it wrote the
// index.
func (x *index) sweep() error {
	entries, err := os.ReadDir(x.in(imagesFolder))
	if err != nil {
		return fault.Wrap("look for what was left half done", err)
	}
	v, err := x.load()
	if err != nil {
		return err
	}
	unfinished, err := filepath.Glob(x.in(tempIndex + "*"))
	if err != nil || len(strays(entries, v)) == 0 && len(x.lost(v)) == 0 && len(unfinished) == 0 {
		return err
	}
	sp, err := x.space()
	if err != nil {
		return err
	}
	defer x.done(sp)
	l, err := tryLock(x.in(indexLock), true)
	if errors.Is(err, errBusy) {
		return nil // another process is working, perhaps on one of these; they do no harm
	}
	if err != nil {
		return fault.Wrap("lock the index", err)
	}
	defer l.release()
	if v, err = x.load(); err != nil {
		return err
	}
	if err := x.dropLost(v); err != nil {
		return err
	}
	for _, name := range unfinished {
		_ = os.Remove(name)
	}
	for _, name := range strays(entries, v) {
		if err := x.moveImage(name, sp); err != nil && !errors.Is(err, errBusy) {
			x.warn("a folder that no image has could not be moved away", "folder", name, "err", err)
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
func (x *index) lost(v *view) (lost []*record) {
	for _, r := range v.records {
		if !x.present(r) {
			lost = append(lost, r)
		}
	}
	return lost
}

// dropLost removes images whose files are gone from the index. The caller holds its lock.
func (x *index) dropLost(v *view) error {
	lost := x.lost(v)
	if len(lost) == 0 {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(v.records), func(r *record) bool { return slices.Contains(lost, r) })
	for _, r := range lost {
		x.warn("the files of an image are missing", "image", r.ref(), "digest", r.Digest)
	}
	return fault.Wrap("write the index", x.write(rest, v, x.now()))
}

// moveImage moves an image's folder out of sight; [errBusy] while it is used. The caller holds the index's lock.
func (x *index) moveImage(folder string, sp *space) error {
	dir := x.in(imagesFolder, folder)
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

// How often moveUnused retries a lock, and the pause between: a process that only checks whether an image is used holds the
// lock for a moment.
const (
	looks    = 5
	lookWait = 5 * time.Millisecond
)

// moveUnused moves an unused image into a space.
func (x *index) moveUnused(ctx context.Context, r *record, sp *space) error {
	for i := 0; ; i++ {
		err := x.moveImage(r.Folder, sp)
		if !errors.Is(err, errBusy) {
			return fault.Wrap("move an image out of the way", err)
		}
		if i == looks {
			return inUse(r)
		}
		if err := sleep(ctx, lookWait); err != nil {
			return err
		}
	}
}
