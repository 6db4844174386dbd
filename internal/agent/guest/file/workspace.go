//go:build linux

package file

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"github.com/belljar/belljar/internal/agent/guest/identity"
)

// Path is the workspace's path in requests, wherever its folder is.
const Path = "/workspace"

// Workspace is a folder whose files requests read and change, with each user's rights.
type Workspace struct {
	dir           string // its path
	root          *os.Root
	own           identity.Own
	buffers       *sync.Pool // of *[]byte
	awaitLaunches func()     // waits until no program is being started: its process would hold a file open for writing
	staging       staging
	commits       sync.Mutex // held while a written file is renamed into place
	named         bool       // as on a file system whose files have names; false except in tests
}

// Open opens the folder of a workspace. In a volume, its owner may have closed it to all users, even to themself.
func Open(dir string, own identity.Own) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return root, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	st := info.Sys().(*syscall.Stat_t)
	err = own.As(identity.ID{UID: int(st.Uid), GID: int(st.Gid)}, func() (err error) {
		if root, err = os.OpenRoot(dir); errors.Is(err, fs.ErrPermission) {
			if err = os.Chmod(dir, info.Mode()|0o700); err == nil {
				root, err = os.OpenRoot(dir)
			}
		}
		return err
	})
	return root, err
}

// New serves the files below root, whose path is dir.
func New(dir string, root *os.Root, own identity.Own, buffers *sync.Pool, awaitLaunches func()) *Workspace {
	return &Workspace{dir: dir, root: root, own: own, buffers: buffers, awaitLaunches: awaitLaunches}
}

func (w *Workspace) Close() { w.root.Close() }
