// Package file is the workspaces of sessions: what callers read, write, search and pack in them. The agent in the sandbox
// does it, with the rights of the sandbox's user; nothing here touches a sandbox's files by path.
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

// Workspace is the workspace of a living session, in use until it is released.
type Workspace interface {
	// Box is the session's sandbox with its agent.
	Box() *box.Box
	// Context ends when the session does.
	Context() context.Context
	// Session is the session as it stands, and Limits are those of its sandbox.
	Session() belljar.Session
	Limits() belljar.Limits
	// KeepAlive records activity that resets the idle timeout of the session but not the TTL.
	KeepAlive()
	Release()
}

// Options is what the files of sessions are made of.
type Options struct {
	// Acquire counts a use of a session that the caller may see and returns its workspace.
	Acquire func(ctx context.Context, caller belljar.Caller, id string) (Workspace, error)
	// Ended is the error of using a session that has ended.
	Ended func(belljar.Session) *belljar.Error
	// Room is an error if the disk has no room for uploads of a user.
	Room func(ctx context.Context, userID string) error
	// Uploads bounds one upload; it lies in TempDir while it is checked.
	Uploads archive.Limits
	TempDir string
	// Record records an event and fills in its time and component.
	Record func(event.Event)
	// Now is the time as it goes on record.
	Now func() time.Time
}

// Files is the workspaces of all sessions.
type Files struct {
	opts     Options
	searches *queue.Queue
}

// New returns the workspaces of these sessions.
func New(opts Options) *Files {
	return &Files{opts: opts, searches: queue.New(queue.Options{Slots: searches, Length: searchesWaiting})}
}

// As is the files as one caller sees them.
func (f *Files) As(caller belljar.Caller) belljar.Files { return view{f, caller} }

// view is the files as one caller sees them.
type view struct {
	*Files
	caller belljar.Caller
}

var _ belljar.Files = view{}

// entryOf is a file as callers see it.
func entryOf(f wire.FileInfo) belljar.FileEntry {
	return belljar.FileEntry{
		Path: f.Path, Type: f.Type, Size: f.Size, Mode: fmt.Sprintf("%04o", f.Mode&0o7777), MtimeUnix: time.Unix(0, f.ModTime).Unix(), Target: f.Target,
	}
}
