// Package dir stores the bytes of artifacts in files below one folder:
//
//	<path>/<user>/runs/<run id>/artifacts/<artifact's path>
//
// A user's folder has the user's name, with special bytes written as %XX. If that is too long, the folder has the SHA-256 of the
// name, and <user>/user_id contains the name itself. Files have mode 0600 and folders 0700. The artifact's own mode is not used. All
// files are opened through [os.Root], so that no link leads out of the folder.
//
// Put writes to runs/<run id>/put-… and renames the file, so that a reader never sees a partial artifact. Delete also removes such
// files after a crash.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
)

// Options configure a store.
type Options struct {
	Path string // the store's folder; created if missing
}

// Store is a [blob.Store] in a folder. No other process may use the folder.
type Store struct {
	root *os.Root

	// tree prevents Delete from removing an empty folder that Put is about to use.
	tree sync.RWMutex
}

// Open opens the store in a folder, and creates the folder if it is missing.
func Open(o Options) (*Store, error) {
	if o.Path == "" {
		return nil, errors.New("blob store: no folder given")
	}
	if err := os.MkdirAll(o.Path, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of artifacts: %w", err)
	}
	root, err := os.OpenRoot(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open the folder of artifacts: %w", err)
	}
	return &Store{root: root}, nil
}

// Close closes the store. Open readers stay valid. It may be called twice.
func (s *Store) Close() error { return s.root.Close() }

// runFolder returns the folder of a run.
func runFolder(userID, runID string) string {
	return path.Join(userFolder(userID), "runs", runID)
}

// artifacts is the name of the folder for artifacts in a run's folder.
const artifacts = "artifacts"

// Open returns an artifact's bytes from offset on; none after the end.
func (s *Store) Open(_ context.Context, k blob.Key, offset int64) (io.ReadCloser, error) {
	if k.Check() != nil {
		return nil, blob.ErrNotFound
	}
	f, err := s.root.Open(path.Join(runFolder(k.UserID, k.RunID), artifacts, k.Path))
	if err != nil {
		return nil, orNotFound(fmt.Errorf("open artifact %q: %w", k.Path, err))
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = blob.ErrNotFound
	}
	if err == nil {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open artifact %q: %w", k.Path, err)
	}
	return f, nil
}

// orNotFound returns err, or [blob.ErrNotFound] if err means that a file is missing.
func orNotFound(err error) error {
	for _, missing := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ENAMETOOLONG} {
		if errors.Is(err, missing) {
			return blob.ErrNotFound
		}
	}
	return err
}

// Delete removes a run's folder, and its owner's folder if that is then empty.
func (s *Store) Delete(_ context.Context, userID, runID string) error {
	if !belljar.ValidID(runID) {
		return nil
	}
	if err := s.root.RemoveAll(runFolder(userID, runID)); err != nil {
		return fmt.Errorf("delete artifacts of run %s: %w", runID, err)
	}
	s.tree.Lock()
	defer s.tree.Unlock()
	user := userFolder(userID)
	if s.root.Remove(path.Join(user, "runs")) != nil {
		return nil // the owner has other runs
	}
	if s.root.Remove(user) != nil && hashed(user) && s.unused(user) {
		_ = s.root.RemoveAll(user)
	}
	return nil
}

// unused reports whether a user's folder has no entry except the name file and leftovers of interrupted writes of it. The caller
// holds tree.
func (s *Store) unused(user string) bool {
	list, err := s.list(user)
	return err == nil && !slices.ContainsFunc(list, func(e fs.DirEntry) bool {
		return e.Name() != nameFile && !strings.HasPrefix(e.Name(), temporaryPrefix)
	})
}

// list returns the entries of a folder.
func (s *Store) list(folder string) ([]fs.DirEntry, error) {
	f, err := s.root.Open(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}
