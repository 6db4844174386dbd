package snapshot

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/shelf"
)

// The kinds of snapshots.
const (
	kindFiles      = "workspace"
	kindLive       = "live"
	kindHibernated = "hibernated"
	kindAsleep     = "hibernated_live"
	kindTemplate   = "template"
)

// IsLive reports whether a snapshot has memory and processes, so that its files cannot be read on their own.
func IsLive(x belljar.Snapshot) bool { return x.Kind == kindLive || x.Kind == kindAsleep }

// besideName is the file in a live snapshot with Belljar's own state of the session, besides the runtime's.
const besideName = "session.json"

type beside struct {
	Cwd string `json:"cwd,omitempty"` // directory of its shell
}

// RefuseLive returns why the memory and processes of a session cannot be saved; nil if they can.
func (s *Snapshots) RefuseLive(w Workspace) error {
	of := w.Session()
	_, _, delivered := w.Private()
	switch _, can := w.Box().Sandbox.(runtime.Snapshotter); {
	case !can || s.opts.Shelf == nil:
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: fmt.Sprintf("the processes of a session on runtime %s cannot be saved", of.Runtime),
			Details: map[string]any{"field": "live", "runtime": of.Runtime, "available": true, "suggested": []string{}},
			Hint:    "use a session on runtime gvisor, or leave out live: files, and the shell of a copy, are saved on every runtime",
		}
	case of.Workspace.OnDisk():
		return &belljar.Error{
			Code: belljar.CodeConflict, Message: "the session has its workspace on a disk, which its saved memory would have to go with",
			Details: map[string]any{"field": "live", "session_id": of.ID}, Hint: "leave out live",
		}
	case delivered:
		return &belljar.Error{
			Code: belljar.CodeConflict, Message: "the session has secrets, which may be in the memory of its programs",
			Details: map[string]any{"field": "live", "session_id": of.ID}, Hint: "leave out live, or use a session without secrets",
		}
	}
	return nil
}

// saveLive saves the memory, files and processes of a session's sandbox into a layer without a key.
func (s *Snapshots) saveLive(ctx context.Context, w Workspace) (*shelf.Layer, error) {
	if err := s.RefuseLive(w); err != nil {
		return nil, err
	}
	l, err := s.opts.Shelf.Make(func(dir string) error {
		if err := w.Box().Sandbox.(runtime.Snapshotter).Snapshot(ctx, dir); err != nil {
			return err
		}
		raw, err := json.Marshal(beside{w.Session().Cwd})
		return errors.Join(err, os.WriteFile(filepath.Join(dir, besideName), raw, 0o600))
	})
	if err != nil {
		if fault.Full(err) {
			err = fault.DiskFull(err)
		}
		return nil, s.fault(ctx, w, err)
	}
	w.KeepAlive()
	return l, nil
}

// packLive writes a saved state as a tar stream.
func packLive(dir string, to io.Writer) error {
	out := tar.NewWriter(to)
	return errors.Join(out.AddFS(os.DirFS(dir)), out.Close())
}

// makeLive makes a live snapshot.
func (s *Snapshots) makeLive(ctx context.Context, w Workspace, x belljar.Snapshot) (belljar.Snapshot, error) {
	var l *shelf.Layer
	p, err := s.spool(ctx, x.UserID, true, func(to io.Writer) (_ bool, err error) {
		if l, err = s.saveLive(ctx, w); err != nil {
			return false, err
		}
		return true, packLive(l.Dir, to)
	})
	defer l.Release()
	if belljar.CodeOf(err) == belljar.CodeTooLarge {
		err = &belljar.Error{
			Code: belljar.CodeTooLarge, Message: fmt.Sprintf("the memory of the session, with its files, is larger than the %d MiB of a snapshot", s.opts.MB),
			Details: map[string]any{"field": "live", "rule": "bytes", "limit": int64(s.opts.MB) << 20},
			Hint:    "leave out live, which saves the files alone, or ask the operator for a larger SANDBOX_SNAPSHOT_MAX_MB",
		}
	}
	if err != nil {
		return belljar.Snapshot{}, err
	}
	defer p.close()
	x.Kind = cmp.Or(x.Kind, kindLive)
	if x, err = s.keep(ctx, p, x); err == nil {
		_ = s.opts.Shelf.Adopt(blobID(x.Digest), l, x.Bytes) // so that it need not be unpacked later
	}
	return x, err
}

// stateOf is filesOf with the session's memory and processes.
func (v view) stateOf(ctx context.Context, w Workspace, made *belljar.Fork) (from *Source, done func(), err error) {
	of := w.Session()
	leave, err := v.snapshots.turns.take(of.UserID)
	if err != nil {
		return nil, nil, err
	}
	l, err := v.snapshots.saveLive(ctx, w)
	done = func() {
		l.Release()
		leave()
	}
	sum, size := sha256.New(), counter{}
	if err == nil {
		if err = packLive(l.Dir, io.MultiWriter(sum, &size)); err != nil {
			err = fault.Record("read a saved state", err)
		}
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	made.Consistent, made.Shell = true, of.Cwd != ""
	return &Source{all: v.snapshots, of: belljar.Snapshot{Digest: digestOf(sum), Bytes: size.n, SessionID: of.ID, Kind: kindLive}, state: l}, done, nil
}

// resume cleans up after restoring a session's sandbox, and returns the directory of its shell. It ends the commands of runs and
// terminals, which belong to the saved session.
func resume(ctx context.Context, w Workspace, state *shelf.Layer) (cwd string, err error) {
	raw, err := os.ReadFile(filepath.Join(state.Dir, besideName))
	var was beside
	if err == nil {
		err = json.Unmarshal(raw, &was)
	}
	if err != nil {
		return "", fault.Record("read a saved state", err)
	}
	ctx, cancel := context.WithTimeout(ctx, resumeTime) // a hijacked agent may list any number of commands
	defer cancel()
	b := w.Box()
	known, err := b.Agent.List(ctx)
	if err != nil {
		return "", err
	}
	for _, e := range known {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err := b.End(e.ID, 0, endTime); err != nil {
			return "", err
		}
	}
	return was.Cwd, nil
}
