//go:build linux

package box_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/test/boxtest"
)

// TestUpload: inline files overwrite those of the stream, each with its mode.
func TestUpload(t *testing.T) {
	b := boxtest.New(t)
	var stream bytes.Buffer
	w := tar.NewWriter(&stream)
	for _, name := range []string{"a", "dir/b"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 3}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "tar"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files := []belljar.InlineFile{{Path: "a", Content: []byte("inline")}, {Path: "./dir/run.sh", Content: []byte("#!/bin/sh\n"), Mode: 0o755}}
	if err := b.Upload(t.Context(), &stream, files); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		size int64
		mode uint32
	}{"a": {6, 0o644}, "dir/b": {3, 0o644}, "dir/run.sh": {10, 0o755}} {
		info, err := b.Agent.Stat(t.Context(), b.File(path))
		if err != nil || info.Size != want.size || info.Mode != want.mode {
			t.Errorf("%s: %+v, %v", path, info, err)
		}
	}
	if _, err := b.Agent.Stat(t.Context(), b.File("missing")); !box.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	if err := b.Upload(t.Context(), nil, []belljar.InlineFile{{Path: "../out"}}); err == nil {
		t.Error("a file outside of the workspace was accepted")
	}
}

// blocked is a body that never arrives.
type blocked struct{ ended chan struct{} }

func (b blocked) Read([]byte) (int, error) {
	<-b.ended
	return 0, io.ErrClosedPipe
}

// TestUploadEnds: an upload whose body blocks ends with its context.
func TestUploadEnds(t *testing.T) {
	b := boxtest.New(t)
	body := blocked{make(chan struct{})}
	defer close(body.ended)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the run was canceled")
	cancel(cause)
	if err := b.Upload(ctx, body, nil); !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}
