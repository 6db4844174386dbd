package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/layer"
	"github.com/belljar/belljar/internal/image/manifest"
	"github.com/belljar/belljar/internal/image/reference"
)

// Parts of a layer, in its folder.
const (
	filesFolder = "files" // as layer.Unpack leaves it
	statsFile   = "size"  // its statistics; a layer without it is incomplete
	layerPrefix = "layer-"
)

func (ls *layers) folder(id string) string { return ls.in(layersFolder, reference.ShortDigest(id)) }

func (ls *layers) lockPath(id string) string {
	return ls.in(locksFolder, layerPrefix+reference.ShortDigest(id))
}

// fetchPath returns the path of the lock for fetching a layer. Each source has its own, so that a slow registry, which may claim any layer,
// delays no pull from another. It is swept like a space.
func (ls *layers) fetchPath(src manifest.Layer) string {
	sum := sha256.Sum256([]byte(src.From + "\n" + src.Blob() + "\n" + src.Id))
	return ls.in(tempFolder, layerPrefix+hex.EncodeToString(sum[:])+spaceLock)
}

// stats reads the statistics of a layer; [fs.ErrNotExist] if the layer is missing, or a loss of power has truncated it.
func (ls *layers) stats(id string) (stats layer.Stats, err error) {
	data, err := os.ReadFile(filepath.Join(ls.folder(id), statsFile))
	if err != nil {
		return stats, err
	}
	if json.Unmarshal(data, &stats) != nil {
		return layer.Stats{}, fs.ErrNotExist
	}
	return stats, nil
}

// layers are the unpacked layers of all images. Images share them. A layer that no image has is removed after a while.
type layers struct {
	*disk
	index *index
	large chan struct{} // a semaphore of streams that may be decompressed with much memory at the same time
}

// heldLayer is a layer that cannot be removed while its lock is held.
type heldLayer struct {
	id    string
	files string
	stats layer.Stats
	lock  *lock
}

// hold holds a layer. If it is missing, unpack writes it into an empty folder, which only one caller for each source does at a time; made
// reports that it did.
func (ls *layers) hold(ctx context.Context, src manifest.Layer, unpack func(dir string) (layer.Stats, error)) (h *heldLayer, made bool, err error) {
	for pause := lockPollLeast; ; pause = min(2*pause, lockPollMost) {
		h, err := ls.here(src.Id)
		if h != nil || err != nil {
			return h, made, err
		}
		// The layer is missing, or being made. A waiter holds no lock of this layer, so two that wait for each other's layers
		// never deadlock.
		l, err := tryLock(ls.fetchPath(src), true)
		if errors.Is(err, errBusy) {
			if err := sleep(ctx, pause); err != nil {
				return nil, false, err
			}
			continue
		}
		if err != nil {
			return nil, false, fault.Wrap("lock a layer", err)
		}
		if _, err := ls.stats(src.Id); errors.Is(err, fs.ErrNotExist) {
			made = true
			if err := ls.create(ctx, src.Id, unpack); err != nil {
				l.discard()
				return nil, false, fault.Wrap("unpack a layer", err)
			}
		}
		l.discard() // and retry: the layer may be removed with the last image that has it before it is held
	}
}

// here holds an existing layer. It returns nil if the layer is missing, or is being made or deleted.
func (ls *layers) here(id string) (*heldLayer, error) {
	if _, err := ls.stats(id); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	l, err := tryLock(ls.lockPath(id), false)
	if errors.Is(err, errBusy) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap("lock a layer", err)
	}
	stats, err := ls.stats(id)
	if err != nil {
		l.release()
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, fault.Wrap("look for a layer", err)
	}
	return &heldLayer{id: id, files: filepath.Join(ls.folder(id), filesFolder), stats: stats, lock: l}, nil
}

// create unpacks a layer next to its place and moves it there when it is complete, unless another source was faster.
func (ls *layers) create(ctx context.Context, id string, unpack func(dir string) (layer.Stats, error)) error {
	sp, err := ls.space()
	if err != nil {
		return err
	}
	defer ls.done(sp)
	whole := sp.in(layerPrefix + reference.ShortDigest(id))
	files := filepath.Join(whole, filesFolder)
	if err := mkdir(whole, 0o711); err != nil {
		return err
	}
	if err := mkdir(files, 0o755); err != nil {
		return err
	}
	stats, err := unpack(files)
	if err != nil {
		return err
	}
	data, err := json.Marshal(stats)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(whole, statsFile), data, 0o644); err != nil {
		return err
	}
	if err := layer.Sync(files); err != nil { // a layer under its final name is complete, also after a loss of power
		return err
	}
	return ls.place(ctx, id, whole, sp.in("cut"))
}

// place moves a complete layer to its place, and what is left there of one that was cut short to cut.
func (ls *layers) place(ctx context.Context, id, whole, cut string) error {
	for pause := lockPollLeast; ; pause = min(2*pause, lockPollMost) {
		l, err := tryLock(ls.lockPath(id), true)
		if err != nil && !errors.Is(err, errBusy) {
			return err
		}
		if _, err := ls.stats(id); !errors.Is(err, fs.ErrNotExist) {
			l.release()
			return err
		}
		if l == nil {
			if err := sleep(ctx, pause); err != nil {
				return err
			}
			continue
		}
		err = os.Rename(ls.folder(id), cut)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = os.Rename(whole, ls.folder(id))
		}
		if err != nil {
			l.discard()
			return err
		}
		l.release()
		return nil
	}
}

// drop moves a layer that no image has into a space and returns its bytes. A layer that another process is making an image of
// stays.
func (ls *layers) drop(id string, sp *space) (int64, error) {
	l, err := tryLock(ls.lockPath(id), true)
	if errors.Is(err, errBusy) {
		return 0, nil
	}
	if err != nil {
		return 0, fault.Wrap("lock a layer", err)
	}
	v, err := ls.index.load() // under the lock: the maker of an image holds its layers until the image is in the index
	if err != nil || v.uses(id) {
		l.release()
		return 0, err
	}
	stats, err := ls.stats(id)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(ls.folder(id), sp.in(layerPrefix+reference.ShortDigest(id)))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.release()
		return 0, fault.Wrap("move a layer out of the way", err)
	}
	l.discard()
	return stats.Bytes, nil
}

// prune deletes layers of failed pulls that were unpacked at least that long ago.
func (ls *layers) prune(ctx context.Context, idle time.Duration) (freed int64, err error) {
	ids, err := ls.idle(idle)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	sp, err := ls.space()
	if err != nil {
		return 0, err
	}
	defer ls.done(sp)
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return freed, err
		}
		n, err := ls.drop(id, sp)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return freed, err
		}
		freed += n
	}
	return freed, nil
}

// idle lists the layers that no image has and that were unpacked at least that long ago.
func (ls *layers) idle(idle time.Duration) (ids []string, err error) {
	entries, err := os.ReadDir(ls.in(layersFolder))
	if err != nil {
		return nil, fault.Wrap("look for layers", err)
	}
	v, err := ls.index.load()
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, r := range v.records {
		for _, l := range r.Layers {
			used[l.ID] = true
		}
	}
	for _, e := range entries {
		id := "sha256:" + e.Name()
		if !reference.IsDigest(id) || used[id] {
			continue
		}
		if idle > 0 && ls.now().Sub(stamped(filepath.Join(ls.folder(id), statsFile))) < idle {
			continue
		}
		ids = append(ids, id)
	}
	return ids, nil
}
