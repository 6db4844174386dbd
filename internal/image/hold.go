package image

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/belljar/belljar/internal/image/layer"
)

// Where the parts of a layer are, below its folder.
const (
	filesFolder = "files" // as layer.Unpack leaves it
	statsFile   = "size"  // what it said of it; a layer without it is none
	layerPrefix = "layer-"
)

func shortID(id string) string { return id[len("sha256:"):] }

func (s *Store) layerFolder(id string) string { return s.path(layersFolder, shortID(id)) }

func (s *Store) layerLock(id string) string { return s.path(locksFolder, layerPrefix+shortID(id)) }

// layerStats reads what is known of a layer that is here; [fs.ErrNotExist] if it is not.
func (s *Store) layerStats(id string) (stats layer.Stats, err error) {
	data, err := os.ReadFile(filepath.Join(s.layerFolder(id), statsFile))
	if err != nil {
		return stats, err
	}
	return stats, json.Unmarshal(data, &stats)
}

// heldLayer is a layer that is here and stays as long as its lock is held.
type heldLayer struct {
	id    string
	files string
	stats layer.Stats
	lock  *lock
}

// holdLayer takes hold of a layer. If it is not here, make unpacks it into an empty folder, which nobody else does at the
// same time; made tells that it did.
func (s *Store) holdLayer(ctx context.Context, id string, make func(dir string) (layer.Stats, error)) (h *heldLayer, made bool, err error) {
	for pause := lockPollLeast; ; pause = min(2*pause, lockPollMost) {
		h, err := s.hereLayer(id)
		if h != nil || err != nil {
			return h, made, err
		}
		// Not here, or in the making. Who waits holds nothing of this layer, so two who wait for each other's are never stuck.
		l, err := tryLock(s.layerLock(id), true)
		if errors.Is(err, errBusy) {
			if err := sleep(ctx, pause); err != nil {
				return nil, false, err
			}
			continue
		}
		if err != nil {
			return nil, false, failed("lock a layer", err)
		}
		if _, err := s.layerStats(id); errors.Is(err, fs.ErrNotExist) {
			made = true
			if err := s.makeLayer(id, make); err != nil {
				l.discard()
				return nil, false, failed("unpack a layer", err)
			}
		}
		l.release() // and once more from the beginning: it may go with somebody's last image before it is held
	}
}

// hereLayer takes hold of a layer that is here, and returns nil if it is not, or is being made or deleted.
func (s *Store) hereLayer(id string) (*heldLayer, error) {
	if _, err := s.layerStats(id); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	l, err := tryLock(s.layerLock(id), false)
	if errors.Is(err, errBusy) {
		return nil, nil
	}
	if err != nil {
		return nil, failed("lock a layer", err)
	}
	stats, err := s.layerStats(id)
	if err != nil {
		l.release()
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, failed("look for a layer", err)
	}
	return &heldLayer{id: id, files: filepath.Join(s.layerFolder(id), filesFolder), stats: stats, lock: l}, nil
}

// makeLayer unpacks a layer beside its place and moves it there when it is whole.
func (s *Store) makeLayer(id string, make func(dir string) (layer.Stats, error)) error {
	sp, err := s.space()
	if err != nil {
		return err
	}
	defer s.done(sp)
	whole := sp.in(layerPrefix + shortID(id))
	files := filepath.Join(whole, filesFolder)
	if err := mkdir(whole, 0o711); err != nil {
		return err
	}
	if err := mkdir(files, 0o755); err != nil {
		return err
	}
	stats, err := make(files)
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
	return os.Rename(whole, s.layerFolder(id))
}
