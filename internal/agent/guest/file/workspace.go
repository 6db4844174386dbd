//go:build linux

package file

import (
	"github.com/belljar/belljar/internal/agent/guest/identity"
	"os"
	"sync"
)

// Path is the workspace's path in requests, wherever it lies.
const Path = "/workspace"

// Workspace is a folder whose files requests read and change, with each user's rights.
type Workspace struct {
	dir           string // its path
	root          *os.Root
	own           identity.Own
	buffers       *sync.Pool // of *[]byte
	awaitLaunches func()     // waits until no program is being started: its process would hold a file open for writing
	staging       staging
	commits       sync.Mutex // held while a written file takes its place
}

// New serves the files below root, whose path is dir.
func New(dir string, root *os.Root, own identity.Own, buffers *sync.Pool, awaitLaunches func()) *Workspace {
	return &Workspace{dir: dir, root: root, own: own, buffers: buffers, awaitLaunches: awaitLaunches}
}

func (w *Workspace) Close() { w.root.Close() }
