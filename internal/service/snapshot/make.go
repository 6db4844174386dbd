package snapshot

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/char"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/fault"
)

// Make saves a session's workspace.
func (v view) Make(ctx context.Context, id string, spec belljar.SnapshotSpec) (belljar.Snapshot, error) {
	if err := spec.Validate(); err != nil {
		return belljar.Snapshot{}, err
	}
	return v.makeAs(ctx, id, spec.Live, belljar.Snapshot{ID: belljar.NewID(), Name: spec.Name})
}

// makeAs saves a session's workspace as a snapshot x, whose id, name and kind are set.
func (v view) makeAs(ctx context.Context, id string, live bool, x belljar.Snapshot) (belljar.Snapshot, error) {
	w, err := v.snapshots.opts.Acquire(ctx, v.caller, id)
	if err != nil {
		return belljar.Snapshot{}, err
	}
	ctx, end := using(ctx, w)
	defer end()
	of := w.Session()
	x.UserID, x.SessionID, x.ScopeKey = of.UserID, of.ID, of.ScopeKey
	make := v.makeFiles
	if live {
		make = v.snapshots.makeLive
	}
	if err = v.snapshots.room(ctx, of.UserID); err == nil {
		x, err = make(ctx, w, x)
	}
	if err != nil {
		return belljar.Snapshot{}, v.snapshots.fault(ctx, w, err)
	}
	v.snapshots.record(event.SnapshotMade, v.caller, x, "session")
	return x, nil
}

// makeFiles makes a snapshot of the files.
func (v view) makeFiles(ctx context.Context, w Workspace, x belljar.Snapshot) (belljar.Snapshot, error) {
	p, err := v.snapshots.save(ctx, w, true)
	if err != nil {
		return x, err
	}
	defer p.close()
	return v.snapshots.keep(ctx, p, x)
}

// using returns a context that also ends with a workspace's session, and a function that ends the use.
func using(ctx context.Context, w Workspace) (context.Context, func()) {
	ctx, stop := context.WithCancelCause(ctx)
	release := sync.OnceFunc(w.Release)
	unhook := context.AfterFunc(w.Context(), func() {
		stop(context.Cause(w.Context()))
		release() // the end of a session does not wait
	})
	return ctx, func() {
		unhook()
		stop(nil)
		release()
	}
}

// save reads the archive of a workspace.
func (s *Snapshots) save(ctx context.Context, w Workspace, keep bool) (*spool, error) {
	b := w.Box()
	send := func(to io.Writer) (frozen bool, err error) { return agent.Save(ctx, b.Agent, b.File("."), to) }
	if keep {
		send = s.received(s.roomOf(ctx, w.Session().UserID), send)
	}
	p, err := s.spool(ctx, w.Session().UserID, keep, send)
	if err != nil {
		return nil, s.fault(ctx, w, err)
	}
	w.KeepAlive()
	return p, nil
}

// fault returns the error for a workspace that could not be saved. It quotes no text of the agent: a program that took over the agent could forge it.
func (s *Snapshots) fault(ctx context.Context, w Workspace, err error) error {
	var own *belljar.Error
	var refused *wire.Error
	id := w.Session().ID
	e := &belljar.Error{Code: belljar.CodeInternal, Message: "the workspace could not be saved", Err: err, Details: map[string]any{"session_id": id}}
	switch {
	case w.Context().Err() != nil: // any other error
		return s.opts.Ended(w.Context(), w.Session())
	case errors.As(err, &own):
		return own
	case ctx.Err() != nil:
		e.Code, e.Message = belljar.CodeCanceled, "the snapshot was canceled"
	case errors.Is(err, errors.ErrUnsupported):
		e.Code, e.Message = belljar.CodeRuntimeUnavailable, "the session's agent cannot save its workspace"
		e.Hint = "the agent is of an older version than the server: make a new session"
	case errors.As(err, &refused) && refused.Code == wire.CodeDenied:
		name := char.Short(cmp.Or(refused.Path, "."), 200) // "." is the workspace itself; a hijacked agent may send any path
		e.Code, e.Message = belljar.CodeConflict, fmt.Sprintf("%q cannot be read: its permissions, or those of a folder above it, do not allow that", name)
		e.Details["path"], e.Hint = name, "a program in the session may change them with chmod"
	case errors.As(err, &refused) && refused.Code == wire.CodeTooLarge:
		e.Code, e.Message = belljar.CodeTooLarge, "the workspace has too many entries, is too deep, or a file has too many attributes"
	case errors.Is(err, agent.ErrDisconnected), errors.Is(err, runtime.ErrGone):
		e.Code, e.Message = belljar.CodeRuntimeUnavailable, "the sandbox's agent broke off"
	}
	return e
}

// Export writes a snapshot's archive, after verifying all of its bytes.
func (v view) Export(ctx context.Context, id string, w io.Writer) error {
	x, err := v.snapshots.Find(ctx, v.caller, id)
	if err != nil {
		return err
	}
	if IsLive(x) {
		return &belljar.Error{
			Code: belljar.CodeConflict, Message: fmt.Sprintf("snapshot %s is live: only this server can continue it", x.ID),
			Details: map[string]any{"snapshot_id": x.ID}, Hint: "make a session of it, and a snapshot of that session's files",
		}
	}
	if _, err := v.snapshots.check(ctx, x); err != nil {
		return err
	}
	r, err := v.snapshots.open(ctx, x)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(w, r); err != nil {
		return givenUp(err)
	}
	v.snapshots.record(event.SnapshotExported, v.caller, x, "")
	return nil
}

// Import makes a snapshot from the caller's archive.
func (v view) Import(ctx context.Context, spec belljar.SnapshotSpec, r io.Reader) (belljar.Snapshot, error) {
	if err := spec.Validate(); err != nil {
		return belljar.Snapshot{}, err
	}
	if err := v.snapshots.room(ctx, v.caller.ID); err != nil {
		return belljar.Snapshot{}, err
	}
	p, err := v.snapshots.spool(ctx, v.caller.ID, true, func(w io.Writer) (bool, error) { return true, unpacked(ctx, w, r) })
	if err != nil {
		return belljar.Snapshot{}, importError(ctx, err)
	}
	defer p.close()
	made, err := v.snapshots.keep(ctx, p, belljar.Snapshot{ID: belljar.NewID(), UserID: v.caller.ID, Name: spec.Name})
	if err != nil {
		return belljar.Snapshot{}, importError(ctx, err)
	}
	v.snapshots.record(event.SnapshotMade, v.caller, made, "import")
	return made, nil
}

// importError is givenUp, except that an error while the request lives is the server's: those of the archive are a [belljar.Error].
func importError(ctx context.Context, err error) error {
	if _, own := errors.AsType[*belljar.Error](err); !own && ctx.Err() == nil {
		return fault.Record("keep the imported snapshot", err)
	}
	return givenUp(err)
}

// givenUp converts err for the caller: an error other than [belljar.Error] is replaced by why the request ended.
func givenUp(err error) error {
	if own, is := errors.AsType[*belljar.Error](err); is {
		return own
	}
	return &belljar.Error{Code: belljar.CodeCanceled, Message: "the request was cancelled", Err: err}
}

// unpacked copies an archive and decompresses gzip and zstd. The writer bounds it.
func unpacked(ctx context.Context, w io.Writer, r io.Reader) error {
	in := bufio.NewReaderSize(&during{ctx, r}, 64<<10)
	head, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return unreadable(err)
	}
	var from io.Reader = in
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		if from, err = gzip.NewReader(in); err != nil {
			return unreadable(err)
		}
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		dec, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
		if err != nil {
			return unreadable(err)
		}
		defer dec.Close()
		from = dec
	}
	to := &writer{w: w}
	if _, err := io.Copy(to, from); err != nil && to.err == nil {
		return unreadable(err)
	}
	return to.err
}

// writer separates its error from the errors of the reader.
type writer struct {
	w   io.Writer
	err error
}

func (w *writer) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	if err != nil {
		w.err = err
	}
	return n, err
}

func unreadable(err error) error {
	if own, is := errors.AsType[*belljar.Error](err); is {
		return own
	}
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: "the archive cannot be read: it broke off, or is no tar archive, plain or compressed with gzip or zstd", Err: err,
		Hint: "test it locally, with tar -tf, make it again if it is bad, and send all of it",
	}
}
