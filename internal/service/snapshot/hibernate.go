package snapshot

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// A hibernated session has a snapshot with the session's id, and a second one with its memory and processes if these can be saved. The second
// depends on the versions of Belljar and of its runtime, the first does not. Callers cannot remove them. They count among their owner's
// snapshots.

// liveOf returns the id of the snapshot with the memory and processes of a hibernated session.
func liveOf(session string) string { return session + "-live" }

// maxPacked bounds the compressed state of a shell, which is kept in memory and in the session's record.
const maxPacked = 64 << 10

// shellError refuses to hibernate a session whose shell would lose state.
func shellError(why string) error {
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: "the state of the session's shell cannot be saved: " + why, Details: map[string]any{"rule": "shell"},
		Hint: "force ends it: the session then wakes with a new shell",
	}
}

// Rest is the saved state of a hibernated session, besides its files.
type Rest struct {
	Files  belljar.Snapshot
	Shell  []byte // the packed state of its shell; nil without one, or if that could not be saved
	Unlive error  // why its memory and processes are not saved; nil if they are
}

// Hibernate saves a session that is about to hibernate: its files as the snapshot with its id, which expires at a time, the state of its
// shell, and its memory and processes if possible. With force, it skips a shell or processes that cannot be saved. Without force, the shell
// must be saved in one of the two ways, and so must contexts, if there are any.
func (s *Snapshots) Hibernate(ctx context.Context, w Workspace, until time.Time, force, contexts bool) (rest Rest, err error) {
	of := w.Session()
	refused := s.RefuseLive(w)
	shell, lost := packShell(ctx, w)
	if lost != nil && refused != nil && !force {
		return rest, lost
	}
	defer func() {
		if err != nil {
			err = errors.Join(s.fault(ctx, w, err), s.Drop(context.WithoutCancel(ctx), of.ID))
		}
	}()
	x := resting(of, until)
	if rest.Files, err = s.keepRest(ctx, w, x, !force && !contexts); err != nil {
		return rest, err
	}
	rest.Shell, rest.Unlive = shell, refused
	if refused == nil {
		x.ID, x.Kind = liveOf(of.ID), kindAsleep
		_, rest.Unlive = s.makeLive(ctx, w, x)
	}
	switch {
	case ctx.Err() != nil:
		return rest, context.Cause(ctx)
	case rest.Unlive == nil || force:
		return rest, nil
	case contexts:
		return rest, rest.Unlive
	}
	return rest, lost
}

// resting returns the snapshot of a session that hibernates.
func resting(of belljar.Session, until time.Time) belljar.Snapshot {
	return belljar.Snapshot{ID: of.ID, UserID: of.UserID, SessionID: of.ID, ScopeKey: of.ScopeKey, Kind: kindHibernated, ExpiresAt: &until}
}

// Rehearse fails if the files of a session cannot be stored, so that its processes are not ended in vain. It stores nothing.
func (s *Snapshots) Rehearse(ctx context.Context, w Workspace, until time.Time) error {
	of := w.Session()
	_, err := s.keepRest(ctx, w, resting(of, until), false)
	if err != nil {
		err = s.fault(ctx, w, err)
	}
	return errors.Join(err, s.Drop(context.WithoutCancel(ctx), of.ID))
}

// keepRest stores the files of a session that is about to hibernate. still means that no program can change them.
func (s *Snapshots) keepRest(ctx context.Context, w Workspace, x belljar.Snapshot, still bool) (belljar.Snapshot, error) {
	if err := s.opts.Accounts.Room(ctx, x.UserID); err != nil {
		return x, err
	}
	if err := s.Drop(ctx, x.ID); err != nil { // left by an earlier process
		return x, err
	}
	p, err := s.save(ctx, w, true)
	if err != nil {
		return x, err
	}
	defer p.close()
	p.frozen = p.frozen || still
	return s.keep(ctx, p, x)
}

// packShell compresses the description of a session's shell; nil if it has none.
func packShell(ctx context.Context, w Workspace) ([]byte, error) {
	if w.Session().Cwd == "" {
		return nil, nil
	}
	leave, ok := w.Shell()
	if !ok {
		return nil, shellError("it runs a command")
	}
	defer leave()
	state := captureShell(ctx, w)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case state == nil:
		return nil, shellError("it is no bash, its variables and functions are too large, or it does not answer")
	case len(state.omitted) > 0:
		return nil, shellError("variables have the value of a secret")
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	defer enc.Close()
	packed := enc.EncodeAll(state.command(), nil)
	if len(packed) > maxPacked {
		return nil, shellError("its variables and functions are too large")
	}
	return packed, nil
}

// Hibernated returns the source of a resumed session: its memory and processes if it is live, else its files and the packed state of its
// shell; nil without one.
func (s *Snapshots) Hibernated(ctx context.Context, caller belljar.Caller, session string, shell []byte, live bool) (*Source, error) {
	if live {
		return s.Source(ctx, caller, liveOf(session))
	}
	from, err := s.Source(ctx, caller, session)
	if err != nil || shell == nil {
		return from, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxCommand))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	from.shell, err = dec.DecodeAll(shell, nil)
	return from, err
}

// Drop removes the snapshots of a session that no longer hibernates, or that of a template. A missing one is no error.
func (s *Snapshots) Drop(ctx context.Context, id string) error {
	for _, id := range []string{id, liveOf(id)} {
		x, err := s.opts.Store.Get(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case err != nil:
			return fault.Record("read the record of snapshot "+id, err)
		case x.Kind != kindHibernated && x.Kind != kindAsleep && x.Kind != kindTemplate:
			continue
		}
		if err := s.remove(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// DropOrphans removes the snapshots of sessions that do not hibernate, and unpacked files without a snapshot, which a crashed process may
// leave. The layers of sandboxes of previous processes must already be held.
func (s *Snapshots) DropOrphans(ctx context.Context, hibernates func(session string) bool) error {
	kept := map[string]bool{} // digests
	for offset := 0; ; {
		list, total, err := s.opts.Store.List(ctx, belljar.SnapshotQuery{Limit: belljar.MaxPage, Offset: offset})
		if err != nil {
			return fault.Record("list snapshots", err)
		}
		offset += belljar.MaxPage
		for _, x := range list {
			if x.Kind != kindHibernated && x.Kind != kindAsleep || hibernates(x.SessionID) {
				kept[blobID(x.Digest)] = true
				continue
			}
			if err := s.remove(ctx, x); err != nil {
				return err
			}
			offset--
		}
		if offset >= total {
			break
		}
	}
	if s.opts.Shelf == nil {
		return nil
	}
	for _, key := range s.opts.Shelf.Keys() {
		if digest, _, _ := strings.Cut(key, "-"); !kept[digest] {
			s.opts.Shelf.Forget(key)
		}
	}
	s.opts.Shelf.Sweep()
	return nil
}
