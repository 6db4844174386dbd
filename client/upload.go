package client

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"path"
	"time"

	"github.com/belljar/belljar"
)

// inlined is how much room files take in a request.
func inlined(files []belljar.InlineFile) int {
	n := 0
	for _, f := range files {
		n += len(f.Content)
	}
	return n
}

// inline reads a tar stream into files that fit into a request. If they do not, or are not all plain files, it returns
// the stream from its beginning instead.
func inline(archive io.Reader, room int) (files []belljar.InlineFile, rest io.Reader, err error) {
	var read bytes.Buffer
	in := tar.NewReader(io.TeeReader(archive, &read))
	whole := func() io.Reader { return io.MultiReader(&read, archive) }
	folders := map[string]bool{}
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the upload is not a tar stream", Err: err}
		}
		switch {
		case h.Typeflag == tar.TypeDir:
			folders[path.Clean(h.Name)] = true
			continue
		case h.Typeflag != tar.TypeReg || h.Size > int64(room):
			return nil, whole(), nil
		}
		content, err := io.ReadAll(in)
		if err != nil {
			return nil, nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the upload is not a tar stream", Err: err}
		}
		room -= len(content)
		files = append(files, belljar.InlineFile{Path: h.Name, Content: content, Mode: uint32(h.Mode) & 0o777})
	}
	for _, f := range files { // folders that files make anyway need no mention
		for dir := path.Dir(path.Clean(f.Path)); dir != "." && dir != "/"; dir = path.Dir(dir) {
			delete(folders, dir)
		}
	}
	delete(folders, ".")
	if len(folders) > 0 {
		return nil, whole(), nil
	}
	return files, nil, nil
}

// stagedTTL is how long a session made for one upload outlives a client that has died.
const stagedTTL = 60

// stage makes a session for one run and fills it, and turns spec into one for a run in it.
func (c *Client) stage(ctx context.Context, spec *belljar.RunSpec, archive io.Reader) (session string, err error) {
	version := spec.SpecVersion
	made, err := c.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: version, Runtime: spec.Runtime, BaseImage: spec.BaseImage, Resources: spec.Resources,
		StartupTimeoutSec: spec.StartupTimeoutSec, NetworkPolicy: spec.NetworkPolicy, Labels: spec.Labels,
		TTLSec: stagedTTL, WorkspaceExec: spec.WorkspaceExec, AllowWeak: spec.AllowWeak,
	}})
	if err != nil {
		return "", err
	}
	_, err = c.Sessions().Upload(ctx, made.ID, belljar.Upload{Parts: one(belljar.UploadPart{
		Name: "upload.tar", Format: belljar.UploadTar, Body: archive,
	})})
	if err != nil {
		c.discard(made.ID)
		return "", err
	}
	kept := spec.Resources
	spec.SessionID, spec.Runtime, spec.BaseImage, spec.AllowWeak = made.ID, "", "", nil
	spec.WorkspaceExec, spec.NetworkPolicy, spec.StartupTimeoutSec = false, "", 0
	spec.Resources = belljar.Resources{LogBytes: kept.LogBytes, ArtifactMB: kept.ArtifactMB, NoFile: kept.NoFile, NProc: kept.NProc}
	return made.ID, nil
}

func one(part belljar.UploadPart) iter.Seq2[belljar.UploadPart, error] {
	return func(yield func(belljar.UploadPart, error) bool) { yield(part, nil) }
}

// outlive ends a session when its only run has ended. If this client ends first the session expires.
func (c *Client) outlive(run, session string) {
	for range c.Runs().Frames(c.ctx, run, belljar.Tail) {
	}
	if c.ctx.Err() == nil {
		c.discard(session)
	}
}

// discard ends a session that nobody is going to use.
func (c *Client) discard(session string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), 10*time.Second)
	defer cancel()
	_ = c.Sessions().Delete(ctx, session) // it expires otherwise
}
