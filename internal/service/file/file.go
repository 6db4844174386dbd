// Package file implements the operations on the workspaces of sessions: read, write, search and archive. The agent in the
// sandbox performs them with the rights of the sandbox's user. This package never accesses a sandbox's files by path.
package file

import (
	"context"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/archive"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/queue"
)

// Workspace is the workspace of a live session, in use until it is released.
type Workspace interface {
	// Box returns the session's sandbox with its agent.
	Box() *box.Box
	// Context ends when the session ends.
	Context() context.Context
	// Session returns the session's current state, Limits the limits of its sandbox.
	Session() belljar.Session
	Limits() belljar.Limits
	// KeepAlive records activity that resets the session's idle timeout but not its TTL.
	KeepAlive()
	Release()
}

// Options configures [Files].
type Options struct {
	// Acquire counts a use of a session that the caller may see and returns its workspace.
	Acquire func(ctx context.Context, caller belljar.Caller, id string) (Workspace, error)
	// Ended returns the error for a session whose context has ended, or whose sandbox has died.
	Ended func(context.Context, belljar.Session) error
	// Room returns an error if the disk has no room for a user's upload.
	Room func(ctx context.Context, userID string) error
	// Uploads bounds one upload. TempDir holds it while it is checked.
	Uploads archive.Limits
	TempDir string
	// Record records an event and fills in its time and component.
	Record func(event.Event)
	// Now returns the time in the precision of records.
	Now func() time.Time
}

// Files manages the workspaces of all sessions.
type Files struct {
	opts     Options
	searches *queue.Queue
	archives *queue.Queue
}

// New returns the workspaces of the sessions that opts.Acquire finds.
func New(opts Options) *Files {
	return &Files{
		opts: opts, searches: queue.New(queue.Options{Slots: searches, Length: searchesWaiting}), archives: queue.New(queue.Options{Length: archivesWaiting}),
	}
}

// As returns the files as one caller sees them.
func (f *Files) As(caller belljar.Caller) belljar.Files { return view{f, caller} }

// view is the files as one caller sees them.
type view struct {
	*Files
	caller belljar.Caller
}

var _ belljar.Files = view{}

// entryOf converts a file's description for callers.
func entryOf(f wire.FileInfo) belljar.FileEntry {
	return belljar.FileEntry{
		Path: f.Path, Type: f.Type, Size: f.Size, Mode: fmt.Sprintf("%04o", f.Mode&0o7777), MtimeUnix: time.Unix(0, f.ModTime).Unix(), MtimeNs: f.ModTime,
		Target: f.Target,
	}
}
