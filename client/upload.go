package client

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"unicode/utf8"

	"github.com/belljar/belljar"
)

// inlined returns the size of a request's inline files, in bytes.
func inlined(spec belljar.RunSpec) int {
	n := len(spec.Code)
	for _, f := range spec.Files {
		n += len(f.Content)
	}
	return n
}

// maxInlineTar is how much of a tar stream, including headers, is read to check whether it fits into a request.
const maxInlineTar = 2 << 20

// inline converts a tar stream to inline files. If they do not fit or are not all plain files, it returns the whole stream
// instead.
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
		case h.Typeflag != tar.TypeReg || h.Size > int64(room) || read.Len() > maxInlineTar || !utf8.ValidString(h.Name): // the server refuses it
			return nil, whole(), nil
		}
		content, err := io.ReadAll(in)
		if err != nil {
			return nil, nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the upload is not a tar stream", Err: err}
		}
		room -= len(content)
		files = append(files, belljar.InlineFile{Path: h.Name, Content: content, Mode: uint32(h.Mode) & 0o777})
	}
	for _, f := range files { // the parents of files are implied
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

// stagedTTL is the TTL of a session for one upload in case the client dies, in seconds.
const stagedTTL = 60

// stage creates a session for one run, uploads the files, and changes spec to a run in the session. A request with an
// idempotency key gets the same session when it is repeated. mine reports that the session is new, so that no other request
// runs in it.
func (c *Client) stage(ctx context.Context, spec *belljar.RunSpec, archive io.Reader, key string) (session string, mine bool, err error) {
	if spec.Snapshot != "" {
		return "", false, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "snapshot cannot be used with files that do not fit into a request",
			Details: map[string]any{"field": "snapshot"}, Hint: "put the files into the snapshot, too",
		}
	}
	if spec.BuildMemoryMB != 0 {
		return "", false, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "build_memory_mb cannot be used with files that do not fit into a request",
			Details: map[string]any{"field": "build_memory_mb"}, Hint: "allow compiler and program the same with memory_mb (--memory)",
		}
	}
	made, err := createStaged(ctx, c, spec, key)
	if err != nil {
		return "", false, err
	}
	mine = key == "" || made.Details == nil || made.Details.Status != "replayed" // without a key, only a lost response is replayed
	if a := made.Approval; a != nil && a.State == belljar.ApprovalPending && c.opts.Asked != nil {
		c.opts.Asked(*a)
	}
	made, err = belljar.Approved(ctx, c.Sessions(), made)
	switch {
	case made.Runs > 0:
		err = nil // its run has the files; it may have ended, and the session with it
	case err == nil:
		err = unpack(ctx, c, made.ID, archive)
		if code := belljar.CodeOf(err); !mine && (code == belljar.CodeConflict || code == belljar.CodeNotFound) {
			err = nil // the session's run may have ended: the server decides
		}
	}
	if err != nil {
		if over := contextError(ctx); over != nil {
			err = over
		}
		if mine {
			c.discard(made.ID)
		}
		return "", false, ofOneUpload(err)
	}
	// The session already has these.
	spec.SessionID, spec.Runtime, spec.BaseImage, spec.AllowWeak = made.ID, "", "", nil
	spec.WorkspaceExec, spec.NetworkPolicy, spec.Egress, spec.Secrets, spec.StartupTimeoutSec = false, "", belljar.Egress{}, nil, 0
	spec.Packages, spec.Git, spec.Template, spec.Workspace = belljar.Packages{}, nil, "", belljar.Workspace{}
	asked := spec.Resources
	spec.Resources = belljar.Resources{LogBytes: asked.LogBytes, ArtifactMB: asked.ArtifactMB, NoFile: asked.NoFile, NProc: asked.NProc}
	return made.ID, mine, nil
}

// createStaged creates the session of stage. If the first request's session ended without a run, its key creates no other one:
// the next key of a series does.
func createStaged(ctx context.Context, c *Client, spec *belljar.RunSpec, key string) (belljar.Session, error) {
	for from := key; ; {
		if key != "" {
			sum := sha256.Sum256([]byte(from))
			from = hex.EncodeToString(sum[:])
			key = "upload-" + from
		}
		made, err := c.Sessions().Create(ctx, belljar.SessionRequest{IdempotencyKey: key, SessionSpec: belljar.SessionSpec{
			SpecVersion: spec.SpecVersion, Runtime: spec.Runtime, BaseImage: spec.BaseImage, Resources: spec.Resources,
			StartupTimeoutSec: spec.StartupTimeoutSec, NetworkPolicy: spec.NetworkPolicy, Egress: spec.Egress, Secrets: spec.Secrets, Labels: spec.Labels,
			Packages: spec.Packages, Git: spec.Git, Template: spec.Template,
			TTLSec: stagedTTL, WorkspaceExec: spec.WorkspaceExec, Workspace: spec.Workspace, AllowWeak: spec.AllowWeak,
			Isolation: spec.Isolation, TrustLevel: spec.TrustLevel,
		}})
		refused := made.Approval != nil && (made.Approval.State == belljar.ApprovalDenied || made.Approval.State == belljar.ApprovalExpired)
		if err != nil || key == "" || !made.State.Ended() || made.Runs > 0 || refused {
			return made, err
		}
	}
}

// ofOneUpload adds a hint to the error about files that are too large for one upload.
func ofOneUpload(err error) error {
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeTooLarge || e.Hint != "" {
		return err
	}
	own := *e
	own.Hint = "the files of a run are one upload; belljar session cp copies more into a session, piece by piece"
	return &own
}

// unpack uploads a tar stream to a session's workspace.
func unpack(ctx context.Context, c *Client, session string, archive io.Reader) error {
	_, err := c.Sessions().Upload(ctx, session, belljar.Upload{Parts: func(yield func(belljar.UploadPart, error) bool) {
		yield(belljar.UploadPart{Format: belljar.UploadTar, Body: archive}, nil)
	}})
	return err
}

// endSession ends a session when its only run has ended. If the client is closed before, the session expires.
func endSession(c *Client, run, session string) {
	f := &follower{c: c, id: run, next: belljar.Tail, yield: func(belljar.Frame, error) bool { return true }, aside: true}
	_ = f.run(c.ctx)
	if c.ctx.Err() != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), detachTimeout)
		defer cancel()
		if got, err := c.Runs().Get(ctx, run); err != nil || !got.Phase.Terminal() {
			return
		}
	}
	c.discard(session)
}

// discard ends an unused session.
func (c *Client) discard(session string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), detachTimeout)
	defer cancel()
	_ = c.Sessions().Delete(ctx, session) // it expires otherwise
}
