package file

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/archive"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
)

// Upload puts files into the workspace of a session: all of them or none. It reads and checks everything before it sends
// anything to the sandbox, and then merges it in one operation.
func (f *Files) Upload(ctx context.Context, caller belljar.Caller, id string, up belljar.Upload) (belljar.UploadResult, error) {
	none := belljar.UploadResult{}
	dir, err := uploadDir(up.Dir)
	if err != nil {
		return none, err
	}
	w, err := f.opts.Acquire(ctx, caller, id)
	if err != nil {
		return none, err
	}
	defer w.Release()
	u := &use{Workspace: w, Box: w.Box(), files: f}
	room := func() error { return f.opts.Room(ctx, caller.ID) }
	if err := room(); err != nil {
		return none, err
	}
	// The end of a session does not wait for a slow body.
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(w.Context(), func() { stop(context.Cause(w.Context())) })()
	kinds := &formats{}
	bundle, err := f.receive(reading, kinds.note(up.Parts), room)
	if err != nil {
		if w.Context().Err() != nil {
			err = u.ended()
		}
		return none, err
	}
	defer bundle.Close()
	if err := u.merge(ctx, dir, bundle); err != nil {
		return none, u.mergeError(err)
	}
	state := w.Session()
	f.opts.Record(event.Event{
		Name: event.Uploaded, Caller: caller, Session: &state, Runtime: state.Runtime,
		Kind: kinds.String(), Count: bundle.Bytes(), Files: int64(bundle.Files()),
	})
	return belljar.UploadResult{SessionID: id, BytesReceived: bundle.Bytes(), FileCount: bundle.Files()}, nil
}

// uploadDir returns the folder of an upload.
func uploadDir(given string) (string, error) {
	if given == "" {
		return ".", nil
	}
	dir, err := belljar.CleanPath(given)
	if err != nil {
		return "", &belljar.Error{
			Code: belljar.CodePathEscapes, Message: "folder of the upload: " + err.Error(),
			Details: map[string]any{"field": "path", "provided": given},
		}
	}
	if err = belljar.CheckPlace(dir); err != nil {
		return "", &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "folder of the upload: " + err.Error(), Details: map[string]any{"field": "dir"},
		}
	}
	return dir, nil
}

// receive reads and checks an upload. When ctx ends, it does not wait for a body that blocks.
func (f *Files) receive(ctx context.Context, parts iter.Seq2[belljar.UploadPart, error], room func() error) (*archive.Bundle, error) {
	type received struct {
		bundle *archive.Bundle
		err    error
	}
	if parts == nil {
		parts = func(func(belljar.UploadPart, error) bool) {}
	}
	done := make(chan received, 1)
	go func() {
		b, err := archive.Read(ctx, parts, archive.Options{Limits: f.opts.Uploads, TempDir: f.opts.TempDir, Room: room})
		done <- received{b, err}
	}()
	select {
	case t := <-done:
		if t.err == nil || ctx.Err() == nil {
			return t.bundle, t.err
		}
	case <-ctx.Done():
		go func() {
			if t := <-done; t.err == nil {
				t.bundle.Close()
			}
		}()
	}
	return nil, &belljar.Error{Code: belljar.CodeCanceled, Message: "the upload was cancelled", Err: context.Cause(ctx)}
}

// merge merges a bundle into a folder of a workspace.
func (u *use) merge(ctx context.Context, dir string, b *archive.Bundle) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mergeTime)
	defer cancel()
	r, w := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		w.CloseWithError(b.WriteTar(ctx, w))
	}()
	_, err := u.Agent.Merge(ctx, u.File(dir), r)
	r.CloseWithError(io.ErrClosedPipe) // ends the packing, if the agent has not read everything
	<-packed
	return err
}

// mergeError returns the error for files that could not be merged.
func (u *use) mergeError(err error) error {
	var refused *wire.Error
	if !errors.As(err, &refused) {
		if errors.Is(err, agent.ErrDisconnected) || errors.Is(err, runtime.ErrGone) {
			state := u.Session()
			if !state.State.Ended() { // its end will be detected soon
				state.State = belljar.SessionCrashed
			}
			return u.files.opts.Ended(u.Context(), state)
		}
		return err
	}
	e := &belljar.Error{Code: belljar.CodeConflict, Message: refused.Message, Err: err, Details: map[string]any{"session_id": u.Session().ID}}
	switch refused.Code {
	case wire.CodeNoSpace:
		e.Code, e.Message = belljar.CodeTooLarge, "the workspace has no room for the upload"
		e.Details["rule"], e.Details["limit"] = "workspace_mb", u.Limits().WorkspaceMB
		e.Hint = "delete something, or " + u.larger()
	case wire.CodePathEscapes:
		e.Code = belljar.CodePathEscapes
	case wire.CodeExists:
		e.Details["rule"] = "clash"
		e.Hint = "a file cannot take the place of a folder, nor a folder that of a file"
	case wire.CodeDenied:
		e.Details["rule"] = "denied"
	default:
		e.Code = belljar.CodeInternal
	}
	return e
}

// formats records the format of an upload.
type formats struct{ seen string }

// note passes parts through and records their formats.
func (f *formats) note(parts iter.Seq2[belljar.UploadPart, error]) iter.Seq2[belljar.UploadPart, error] {
	if parts == nil {
		return nil
	}
	return func(yield func(belljar.UploadPart, error) bool) {
		for p, err := range parts {
			switch kind := string(p.Format); {
			case f.seen == "":
				f.seen = kind
			case f.seen != kind:
				f.seen = "mixed"
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// String returns the format, or mixed.
func (f *formats) String() string { return f.seen }
