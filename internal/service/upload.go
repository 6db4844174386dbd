package service

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"path"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
)

// upload puts the request's files into the workspace: its tar stream, the inline files over it, and a place for
// temporary files where the command can use one.
func upload(ctx context.Context, p *plan, a *agent.Client) error {
	if p.request.WorkspaceExec {
		req := owned(tmpDir)
		req.Mode, req.Parents = 0o700, true
		if err := a.Mkdir(ctx, req); err != nil {
			return err
		}
	}
	if p.request.Upload != nil {
		if err := unpack(ctx, a, p.request.Upload); err != nil {
			return fmt.Errorf("upload: %w", err)
		}
	}
	if len(p.request.Files) > 0 {
		archive, err := pack(p.request.Files)
		if err == nil {
			err = unpack(ctx, a, archive)
		}
		if err != nil {
			return fmt.Errorf("inline files: %w", err)
		}
	}
	return nil
}

// unpack sends a tar stream. It does not wait for a reader that blocks when ctx ends.
func unpack(ctx context.Context, a *agent.Client, r io.Reader) error {
	done := make(chan error, 1)
	go func() {
		_, err := a.TarIn(ctx, owned("."), r)
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

// pack makes inline files a tar stream, so that all of them take one request.
func pack(files []belljar.InlineFile) (io.Reader, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		name, err := belljar.CleanPath(f.Path)
		if err != nil {
			return nil, err
		}
		mode := int64(f.Mode)
		if mode == 0 {
			mode = 0o644
		}
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

// owned is a request for a file with the rights of the sandbox's user.
func owned(path string) wire.FileRequest {
	return wire.FileRequest{Path: path, UID: sandboxUID, GID: sandboxGID}
}
