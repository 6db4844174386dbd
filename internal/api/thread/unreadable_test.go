//go:build linux

package thread_test

import (
	"context"
	"slices"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/thread"
)

// sealed is an engine whose workspaces cannot be listed, for the reason code.
type sealed struct {
	belljar.Engine
	code belljar.Code
}

func (e sealed) As(c belljar.Caller) belljar.Service { return sealedService{e.Engine.As(c), e.code} }

type sealedService struct {
	belljar.Service
	code belljar.Code
}

func (s sealedService) Files() belljar.Files { return sealedFiles{s.Service.Files(), s.code} }

type sealedFiles struct {
	belljar.Files
	code belljar.Code
}

func (f sealedFiles) List(ctx context.Context, id string, q belljar.FileQuery) (belljar.FileList, error) {
	if q.Recursive {
		return belljar.FileList{}, &belljar.Error{Code: f.code, Message: "it cannot be listed", Details: map[string]any{"path": "."}}
	}
	return f.Files.List(ctx, id, q)
}

// A session whose workspace its programs made unreadable is active. One whose sandbox does not answer is not reported as empty.
func TestUnreadableWorkspace(t *testing.T) {
	for code, status := range map[belljar.Code]int{belljar.CodeConflict: 200, belljar.CodeTimeout: 504, belljar.CodeInternal: 500} {
		w := newWorld(t, func(o *thread.Options) { o.Engine = sealed{o.Engine, code} })
		id := w.open("a")
		want := map[string]any{"code": string(code)}
		if status == 200 {
			want = map[string]any{"session_id": id, "status": "active", "files_count": 0}
		}
		w.get("get_session?thread_id=a").want(t, status, want)
	}
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

// coarse is an engine whose lists have no nanoseconds, like those of a client.
type coarse struct{ belljar.Engine }

func (e coarse) As(c belljar.Caller) belljar.Service { return coarseService{e.Engine.As(c)} }

type coarseService struct{ belljar.Service }

func (s coarseService) Files() belljar.Files { return coarseFiles{s.Service.Files()} }

type coarseFiles struct{ belljar.Files }

func (coarseFiles) List(context.Context, string, belljar.FileQuery) (belljar.FileList, error) {
	return belljar.FileList{Entries: []belljar.FileEntry{{Path: "a", MtimeUnix: 1}, {Path: "b", MtimeUnix: 2}, {Path: "c", MtimeUnix: 2}}}, nil
}

// Files whose times have no nanoseconds are sorted by seconds, then by name.
func TestNewestFirstBySeconds(t *testing.T) {
	w := newWorld(t, func(o *thread.Options) { o.Engine = coarse{o.Engine} })
	var names []any
	for _, f := range w.get("list_files?session_id=" + w.open("a")).body["files"].([]any) {
		names = append(names, f.(map[string]any)["name"])
	}
	if !slices.Equal(names, []any{"b", "c", "a"}) {
		t.Error(names)
	}
}
