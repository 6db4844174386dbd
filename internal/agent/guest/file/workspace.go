//go:build linux

package file

import (
	"github.com/belljar/belljar/internal/agent/guest/identity"
	"os"
	"sync"
)

// Path is what requests call the workspace, wherever it lies.
const Path = "/workspace"

// Workspace is the folder whose files requests read and change, each with its user's rights.
type Workspace struct {
	dir         string // its path
	root        *os.Root
	own         identity.Own
	buffers     *sync.Pool // of *[]byte
	awaitBirths func()     // waits until no program is being started: it would hold a file open for writing
	staging     staging
}

// New serves the files below root, whose path is dir.
func New(dir string, root *os.Root, own identity.Own, buffers *sync.Pool, awaitBirths func()) *Workspace {
	return &Workspace{dir: dir, root: root, own: own, buffers: buffers, awaitBirths: awaitBirths}
}

func (w *Workspace) Close() { w.root.Close() }
