package service

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"path"

	"github.com/belljar/belljar"
)

// furnish prepares the workspace of a new sandbox: a place for temporary files where commands can use one.
func (j *jar) furnish(ctx context.Context, p *plan) error {
	if !p.exec {
		return nil
	}
	req := j.file(tmpDir)
	req.Mode, req.Parents = 0o700, true
	return j.agent.Mkdir(ctx, req)
}

// upload puts the request's files into the workspace: its tar stream, and the inline files over it.
func (j *jar) upload(ctx context.Context, p *plan) error {
	if p.request.Upload != nil {
		if err := j.unpack(ctx, p.request.Upload); err != nil {
			return fmt.Errorf("upload: %w", err)
		}
	}
	if len(p.files) > 0 {
		archive, err := pack(p.files)
		if err == nil {
			err = j.unpack(ctx, archive)
		}
		if err != nil {
			return fmt.Errorf("inline files: %w", err)
		}
	}
	return nil
}

// unpack sends a tar stream. It does not wait for a reader that blocks when ctx ends.
func (j *jar) unpack(ctx context.Context, r io.Reader) error {
	done := make(chan error, 1)
	go func() {
		_, err := j.agent.TarIn(ctx, j.file("."), r)
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
