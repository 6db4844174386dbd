package snapshot

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/room"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/shelf"
)

// load unpacks an archive into the workspace of a new sandbox. If the stream fails, a part of it stays there.
func load(ctx context.Context, b *box.Box, r io.Reader, on belljar.Workspace) error {
	err := agent.Load(ctx, b.Agent, b.File("."), r)
	if err == nil {
		return nil
	}
	var own *belljar.Error
	var refused *wire.Error
	switch {
	case errors.As(err, &own):
		return own
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &refused) && refused.Code == wire.CodeNoSpace:
		field, _ := fault.Larger(on)
		return &belljar.Error{
			Code: belljar.CodeTooLarge, Message: "the workspace has no room for the snapshot", Err: err,
			Details: map[string]any{"field": field, "rule": "workspace_mb"}, Hint: fault.RoomHint(on, false),
		}
	case errors.Is(err, agent.ErrDisconnected), errors.Is(err, runtime.ErrGone):
		return err
	}
	if damage := cause(r); damage != nil || refused == nil || !slices.Contains(obstacles, refused.Code) {
		return cmp.Or(damage, fmt.Errorf("unpack the snapshot: %w", err))
	}
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: "the snapshot does not fit over what the workspace has: " + refused.Message, Err: err,
		Details: map[string]any{"field": "snapshot"}, Hint: "remove the file in its place, or use another volume",
	}
}

// obstacles are the error codes of an agent that cannot unpack an archive over the content of a workspace.
var obstacles = []wire.Code{wire.CodeDenied, wire.CodeExists, wire.CodeInvalid, wire.CodeNotFile}

// cause reads the rest of an archive that could not be unpacked, and returns the error if its bytes are damaged. Damaged bytes are
// often not a valid tar archive long before the digest can be checked at the end.
func cause(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	if own, is := errors.AsType[*belljar.Error](err); is {
		return own
	}
	return nil
}

// Layer returns a snapshot as a read-only layer of a sandbox. It stays until the layer is released.
func (s *Snapshots) Layer(ctx context.Context, x belljar.Snapshot) (runtime.Layer, *shelf.Layer, error) {
	if s.opts.Shelf == nil {
		return runtime.Layer{}, nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "snapshots cannot be unpacked here: there is no data folder", Details: map[string]any{"field": "snapshot"},
		}
	}
	held, err := s.unpacked(ctx, x, blobID(x.Digest), false, s.opener(x), func(key string, r io.Reader) (*shelf.Layer, error) {
		return s.opts.Shelf.Put(key, nil, s.opts.Now(), r)
	})
	if err != nil {
		return runtime.Layer{}, nil, err
	}
	return runtime.Layer{Name: runtime.SnapshotLayer, Dir: held.Dir}, held, nil
}

// opener opens the archive of a snapshot.
type opener func(ctx context.Context) (io.ReadCloser, error)

func (s *Snapshots) opener(x belljar.Snapshot) opener {
	return func(ctx context.Context) (io.ReadCloser, error) {
		r, err := s.open(ctx, x)
		if err != nil {
			return nil, err
		}
		return r, nil
	}
}

// unpacked returns the layer of a key, held, and unpacks an archive into it if there is none. bounded returns nil if the layers in use leave no room.
func (s *Snapshots) unpacked(ctx context.Context, x belljar.Snapshot, key string, bounded bool, open opener, put func(key string, r io.Reader) (*shelf.Layer, error)) (*shelf.Layer, error) {
	if _, err := hex.DecodeString(blobID(x.Digest)); err != nil || !IsBlob(blobID(x.Digest)) {
		return nil, damaged(x, errors.New("its record has no digest"))
	}
	defer s.lock("", x.Digest)() // one call unpacks it, and others wait
	held, err := s.opts.Shelf.Get(key)
	if err == nil && held == nil {
		if bounded {
			release, ok := s.opts.Shelf.Reserve(x.Bytes, int64(x.Files))
			if !ok {
				return nil, nil
			}
			defer release()
		}
		var r io.ReadCloser
		if r, err = open(ctx); err != nil {
			return nil, err
		}
		defer r.Close()
		// Unpacked files count to no user, so a full disk refuses them to all.
		to := room.Reader(r, func() error { return s.opts.Accounts.Room(ctx, "") })
		if held, err = put(key, to); err != nil {
			err = cmp.Or(cause(to), err)
		}
	}
	var own *belljar.Error
	switch {
	case err == nil:
		return held, nil
	case errors.As(err, &own):
		return nil, own
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, fault.Record("unpack snapshot "+x.ID, err)
}
