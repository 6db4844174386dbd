package box

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/placement"
)

// PrepareWorkspace prepares the workspace in which programs may be executed: it makes a folder for temporary files.
func (b *Box) PrepareWorkspace(ctx context.Context) error {
	req := b.File(placement.TmpDir)
	req.Mode, req.Parents = 0o700, true
	err := b.Agent.Mkdir(ctx, req)
	refused, is := errors.AsType[*wire.Error](err)
	if !is || refused.Code == wire.CodeNoSpace || refused.Code == wire.CodeInternal {
		return err
	}
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("the workspace has %s, which is no folder for temporary files", placement.TmpDir),
		Details: map[string]any{"field": "workspace_exec"}, Hint: "remove it in a session without workspace_exec",
	}
}

// Upload puts a request's files into the workspace: first its tar stream, if any, then the inline files, which overwrite.
func (b *Box) Upload(ctx context.Context, stream io.Reader, files []belljar.InlineFile) error {
	if stream != nil {
		if err := b.unpack(ctx, stream); err != nil {
			return fmt.Errorf("upload: %w", err)
		}
	}
	if len(files) > 0 {
		archive, err := pack(files)
		if err == nil {
			err = b.unpack(ctx, archive)
		}
		if err != nil {
			return fmt.Errorf("inline files: %w", err)
		}
	}
	return nil
}

// unpack sends a tar stream. It does not wait for a reader that blocks when ctx ends.
func (b *Box) unpack(ctx context.Context, r io.Reader) error {
	done := make(chan error, 1)
	go func() {
		_, err := b.Agent.TarIn(ctx, b.File("."), r)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pack packs inline files into a tar stream, so that one request sends all of them.
func pack(files []belljar.InlineFile) (io.Reader, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		name, err := belljar.CleanPath(f.Path)
		if err != nil {
			return nil, err
		}
		mode := cmp.Or(int64(f.Mode), 0o644)
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Clean(name), Mode: mode & 0o777, Size: int64(len(f.Content))}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Content); err != nil {
			return nil, err
		}
	}
	return &buf, w.Close()
}
