package remote

import (
	"context"
	"io"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/workspace"
)

// steady is an engine whose machine sometimes loses its connection: calls that only read files are retried once. The second attempt waits
// for the next connection.
type steady struct{ workspace.Engine }

// Files implements [workspace.Engine].
func (s steady) Files() belljar.Files { return steadyFiles{s.Engine.Files()} }

type steadyFiles struct{ belljar.Files }

// twice repeats do once if the connection was lost during the call.
func twice(ctx context.Context, do func() error) {
	if belljar.CodeOf(do()) == belljar.CodeRuntimeUnavailable && ctx.Err() == nil {
		_ = do()
	}
}

// Read implements [belljar.Files].
func (f steadyFiles) Read(ctx context.Context, session, path string, offset, limit int64) (e belljar.FileEntry, body io.ReadCloser, err error) {
	twice(ctx, func() error { e, body, err = f.Files.Read(ctx, session, path, offset, limit); return err })
	return e, body, err
}

// Stat implements [belljar.Files].
func (f steadyFiles) Stat(ctx context.Context, session, path string) (e belljar.FileEntry, err error) {
	twice(ctx, func() error { e, err = f.Files.Stat(ctx, session, path); return err })
	return e, err
}

// List implements [belljar.Files].
func (f steadyFiles) List(ctx context.Context, session string, q belljar.FileQuery) (l belljar.FileList, err error) {
	twice(ctx, func() error { l, err = f.Files.List(ctx, session, q); return err })
	return l, err
}

// Search implements [belljar.Files].
func (f steadyFiles) Search(ctx context.Context, session string, q belljar.FileSearch) (m belljar.FileMatches, err error) {
	twice(ctx, func() error { m, err = f.Files.Search(ctx, session, q); return err })
	return m, err
}
