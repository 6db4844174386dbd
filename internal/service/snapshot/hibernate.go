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

// A hibernated session is a snapshot that has the session's id. No caller removes it, and it counts among its owner's snapshots.

// maxPacked bounds the compressed state of a shell, which stays in memory and in the session's record.
const maxPacked = 64 << 10

// shellError refuses to hibernate a session whose shell would lose something.
func shellError(why string) error {
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: "the state of the session's shell cannot be saved: " + why, Details: map[string]any{"rule": "shell"},
		Hint: "force ends it: the session then wakes with a new shell",
	}
}

// Hibernate saves a session that is about to hibernate: its files as the snapshot of its id, which is kept until a time, and the state
// of its shell. With force, a shell that cannot be saved is left out.
func (s *Snapshots) Hibernate(ctx context.Context, w Workspace, until time.Time, force bool) (belljar.Snapshot, []byte, error) {
	of := w.Session()
	if err := s.opts.Accounts.Room(ctx, of.UserID); err != nil {
		return belljar.Snapshot{}, nil, err
	}
	shell, err := packShell(ctx, w)
	if err != nil && !force {
		return belljar.Snapshot{}, nil, err
	}
	if err := s.Drop(ctx, of.ID); err != nil { // one that an earlier process has left
		return belljar.Snapshot{}, nil, err
	}
	p, err := s.save(ctx, w, true)
	if err != nil {
		return belljar.Snapshot{}, nil, err
	}
	defer p.close()
	p.frozen = p.frozen || !force // only the idle shell is there
	made, err := s.keep(ctx, p, belljar.Snapshot{
		ID: of.ID, UserID: of.UserID, SessionID: of.ID, ScopeKey: of.ScopeKey, Kind: kindHibernated, ExpiresAt: &until,
	})
	if err != nil {
		return belljar.Snapshot{}, nil, s.fault(ctx, w, err)
	}
	return made, shell, nil
}

// packShell describes a session's shell in few bytes; nil if it has none.
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
		return nil, shellError("it is no bash, or does not answer")
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

// Hibernated returns what a session wakes with: its files, and the packed state of its shell; nil without one.
func (s *Snapshots) Hibernated(ctx context.Context, caller belljar.Caller, session string, shell []byte) (*Source, error) {
	from, err := s.Source(ctx, caller, session)
	if err != nil || shell == nil {
		return from, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*maxShellState))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	from.shell, err = dec.DecodeAll(shell, nil)
	return from, err
}

// Drop removes the snapshot of a session that no longer hibernates, or of a template. One that is gone is no error.
func (s *Snapshots) Drop(ctx context.Context, id string) error {
	x, err := s.opts.Store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return fault.Record("read the record of snapshot "+id, err)
	case x.Kind != kindHibernated && x.Kind != kindTemplate:
		return nil
	}
	return s.remove(ctx, x)
}

// DropOrphans removes the snapshots of sessions that do not hibernate, and what is unpacked and belongs to no snapshot, as a process leaves
// them that dies. What the sandboxes of former processes have is held by then.
func (s *Snapshots) DropOrphans(ctx context.Context, hibernates func(session string) bool) error {
	kept := map[string]bool{} // digests
	for offset := 0; ; {
		list, total, err := s.opts.Store.List(ctx, belljar.SnapshotQuery{Limit: belljar.MaxPage, Offset: offset})
		if err != nil {
			return fault.Record("list snapshots", err)
		}
		offset += belljar.MaxPage
		for _, x := range list {
			if x.Kind != kindHibernated || hibernates(x.ID) {
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
