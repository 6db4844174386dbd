//go:build linux

package thread_test

import (
	"context"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/thread"
)

// sealed is an engine whose workspaces cannot be listed.
type sealed struct{ belljar.Engine }

func (e sealed) As(c belljar.Caller) belljar.Service { return sealedService{e.Engine.As(c)} }

type sealedService struct{ belljar.Service }

func (s sealedService) Files() belljar.Files { return sealedFiles{s.Service.Files()} }

type sealedFiles struct{ belljar.Files }

func (f sealedFiles) List(ctx context.Context, id string, q belljar.FileQuery) (belljar.FileList, error) {
	if q.Recursive {
		return belljar.FileList{}, &belljar.Error{Code: belljar.CodeConflict, Message: "permissions", Details: map[string]any{"path": "."}}
	}
	return f.Files.List(ctx, id, q)
}

// A session whose workspace cannot be read is active.
func TestUnreadableWorkspace(t *testing.T) {
	w := newWorld(t, func(o *thread.Options) { o.Engine = sealed{o.Engine} })
	id := w.open("a")
	w.get("get_session?thread_id=a").want(t, 200, map[string]any{"session_id": id, "status": "active", "files_count": 0})
}

// full is an engine whose workspaces are full with files that a list does not show.
type full struct{ belljar.Engine }

func (e full) As(c belljar.Caller) belljar.Service { return fullService{e.Engine.As(c)} }

type fullService struct{ belljar.Service }

func (s fullService) Files() belljar.Files { return fullFiles{s.Service.Files()} }

type fullFiles struct{ belljar.Files }

func (fullFiles) Write(context.Context, string, belljar.FileWrite) (belljar.FileEntry, error) {
	return belljar.FileEntry{}, &belljar.Error{Code: belljar.CodeDiskFull, Message: "the workspace is full"}
}

func (fullFiles) Space(context.Context, string) (belljar.Space, error) {
	return belljar.Space{Bytes: 3 << 19, MaxBytes: 2 << 20}, nil
}

// A refused upload names what is used, also by files that a list does not show.
func TestHiddenFilesTakeRoom(t *testing.T) {
	w := newWorld(t, func(o *thread.Options) { o.Engine, o.MaxWorkspaceMB = full{o.Engine}, 2 })
	id := w.open("a")
	w.upload(field{"session_id", "", id}, field{"file", "f", "x"}).want(t, 507, map[string]any{
		"error": "Workspace size limit exceeded", "max_workspace_mb": 2, "current_workspace_mb": 1.5,
	})
}
