package service

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/archive"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
)

// mergeTime bounds the bringing in of files that have been checked. It does not end with the caller: from there on an
// upload is a matter between us and the sandbox, and comes to an end that can be told.
const mergeTime = 2 * time.Minute

// uploadTo puts files into a session's workspace: all of them or none. Everything is read and checked before the
// sandbox hears of it, and then takes its place in one operation.
func (s *Service) uploadTo(ctx context.Context, caller belljar.Caller, id string, u belljar.Upload) (belljar.UploadResult, error) {
	none := belljar.UploadResult{}
	x, err := s.session(caller, id)
	if err != nil {
		return none, err
	}
	dir := "."
	if u.Dir != "" {
		if dir, err = belljar.CleanPath(u.Dir); err != nil {
			return none, &belljar.Error{
				Code: belljar.CodePathEscapes, Message: "folder of the upload: " + err.Error(),
				Details: map[string]any{"field": "path", "provided": u.Dir},
			}
		}
		if err = belljar.CheckPlace(dir); err != nil {
			return none, &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: "folder of the upload: " + err.Error(), Details: map[string]any{"field": "dir"},
			}
		}
	}
	room := func() error { return s.room(ctx, caller.ID) }
	if err := room(); err != nil {
		return none, err
	}
	j, err := x.acquire(ctx)
	if err != nil {
		return none, err
	}
	defer x.release()
	// A session that ends does not wait for a body that is slow to come.
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(x.ctx, func() { stop(context.Cause(x.ctx)) })()
	kinds := &formats{}
	bundle, err := s.takeIn(reading, kinds.note(u.Parts), room)
	if err != nil {
		if x.ctx.Err() != nil {
			err = sessionEnded(x.snapshot())
		}
		return none, err
	}
	defer bundle.Close()
	if err := merge(ctx, j, dir, bundle); err != nil {
		return none, x.mergeError(err)
	}
	state := x.snapshot()
	s.opts.Events.Record(event.Event{
		Name: event.Uploaded, Time: s.clock.Now(), Caller: caller, Session: &state, Runtime: state.Runtime, Component: component,
		Kind: kinds.String(), Count: bundle.Bytes(), Files: int64(bundle.Files()),
	})
	return belljar.UploadResult{SessionID: id, BytesReceived: bundle.Bytes(), FileCount: bundle.Files()}, nil
}

// takeIn reads an upload and checks it. It does not wait for a body that blocks when ctx ends.
func (s *Service) takeIn(ctx context.Context, parts iter.Seq2[belljar.UploadPart, error], room func() error) (*archive.Bundle, error) {
	type taken struct {
		bundle *archive.Bundle
		err    error
	}
	if parts == nil {
		parts = func(func(belljar.UploadPart, error) bool) {}
	}
	done := make(chan taken, 1)
	go func() {
		b, err := archive.Read(ctx, parts, archive.Options{Limits: s.opts.Uploads, TempDir: s.opts.TempDir, Room: room})
		done <- taken{b, err}
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
	return nil, &belljar.Error{Code: belljar.CodeCanceled, Message: "the upload was given up", Err: context.Cause(ctx)}
}

// merge brings a bundle into a folder of a workspace.
func merge(ctx context.Context, j *box.Box, dir string, b *archive.Bundle) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mergeTime)
	defer cancel()
	r, w := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		w.CloseWithError(b.WriteTar(ctx, w))
	}()
	_, err := j.Agent.Merge(ctx, j.File(dir), r)
	r.CloseWithError(io.ErrClosedPipe) // the packing ends, if the agent has not taken all of it
	<-packed
	return err
}

// mergeError is what a caller hears of files that did not get into the workspace.
func (x *session) mergeError(err error) error {
	var refused *wire.Error
	if !errors.As(err, &refused) {
		if errors.Is(err, agent.ErrDisconnected) || errors.Is(err, runtime.ErrGone) {
			state := x.snapshot()
			if !state.State.Ended() { // its end is about to be noticed
				state.State = belljar.SessionCrashed
			}
			return sessionEnded(state)
		}
		return err
	}
	e := &belljar.Error{Code: belljar.CodeConflict, Message: refused.Message, Err: err, Details: map[string]any{"session_id": x.id}}
	switch refused.Code {
	case wire.CodeNoSpace:
		e.Code, e.Message = belljar.CodeTooLarge, "the workspace has no room for the upload"
		e.Details["rule"], e.Details["limit"] = "workspace_mb", x.plan.limits.WorkspaceMB
		e.Hint = "make a session with a larger workspace_mb"
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

// formats remembers what an upload came in.
type formats struct{ seen string }

// note passes parts on.
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

// String is the format, or mixed.
func (f *formats) String() string { return f.seen }
