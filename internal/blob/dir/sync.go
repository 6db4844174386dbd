package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"sync"
)

// syncers is the number of concurrent syncs: a journaling file system commits them together.
const syncers = 8

// Sync makes all artifacts of a run durable against a power failure: it syncs each file, and each folder from the
// store's down.
func (s *Store) Sync(ctx context.Context, userID, runID string) error {
	run := runFolder(userID, runID)
	var files []string
	folders := []string{run, path.Dir(run), userFolder(userID), "."}
	err := fs.WalkDir(s.root.FS(), path.Join(run, artifacts), func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			folders = append(folders, name)
		default:
			files = append(files, name)
		}
		return ctx.Err()
	})
	if errors.Is(err, fs.ErrNotExist) && len(files) == 0 {
		return nil // the run has no artifacts
	}
	if err == nil {
		err = s.syncAll(ctx, files, os.O_RDWR)
	}
	if err == nil && runtime.GOOS != "windows" { // Windows cannot sync a folder and leaves it to the file system
		err = s.syncAll(ctx, folders, os.O_RDONLY)
	}
	if err != nil {
		return orFull(fmt.Errorf("sync artifacts of run %s: %w", runID, err))
	}
	return nil
}

// syncAll syncs files or folders, and returns the first error.
func (s *Store) syncAll(ctx context.Context, names []string, flag int) error {
	work := make(chan string)
	failed := make(chan error, syncers)
	var all sync.WaitGroup
	for range min(syncers, len(names)) {
		all.Go(func() {
			for name := range work {
				if err := s.syncOne(ctx, name, flag); err != nil {
					failed <- err
					break
				}
			}
			for range work { // drain the rest after an error
			}
		})
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	all.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (s *Store) syncOne(ctx context.Context, name string, flag int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := s.root.OpenFile(name, flag, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
