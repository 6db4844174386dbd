package snapshot

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/shelf"
)

// Source is the initial content of a new session.
type Source struct {
	all   *Snapshots
	of    belljar.Snapshot
	open  opener
	shell []byte       // first command of its shell; nil for a new shell
	state *shelf.Layer // of a live copy; nil for all others
	start []string     // commands that the new session executes
}

// Source returns the source of a session that is made from a snapshot.
func (s *Snapshots) Source(ctx context.Context, caller belljar.Caller, id string) (*Source, error) {
	x, err := s.Find(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	return &Source{all: s, of: x, open: s.opener(x)}, nil
}

// Digest returns the digest of the files.
func (f *Source) Digest() string { return f.of.Digest }

// Below these bounds a copy of the files costs less than an overlay, which must be made with the sandbox.
const (
	overlayBytes = 1 << 20
	overlayFiles = 50
)

// Live reports whether a session made from it begins with processes.
func (f *Source) Live() bool { return IsLive(f.of) }

// Lay unpacks the content of a new sandbox: a saved state, or files for a workspace that supports them without a copy. The layer is held; nil
// means that the files must be copied ([Source.Fill]), as when layers in use fill the shelf: they count to no user, a copy to its sandbox.
func (f *Source) Lay(ctx context.Context, p placement.Placement) (*shelf.Layer, error) {
	s := f.all
	switch {
	case f.state != nil:
		return s.opts.Shelf.Hold(f.state.Dir)
	case f.Live() && s.opts.Shelf != nil:
		return s.unpacked(ctx, f.of, blobID(f.of.Digest), false, f.open, func(key string, r io.Reader) (*shelf.Layer, error) {
			return s.opts.Shelf.PutState(key, s.opts.Now(), r)
		})
	}
	if s.opts.Shelf == nil || !p.Caps.Overlay || p.Fetch != "" || p.Workspace.OnDisk() || f.of.Bytes < overlayBytes && f.of.Files < overlayFiles || f.of.Bytes > int64(p.Limits.WorkspaceMB)<<20/2 {
		return nil, nil
	}
	uid, gid := box.User(p.Image)
	held, err := s.unpacked(ctx, f.of, ownKey(f.of.Digest, uid, gid), true, f.open, func(key string, r io.Reader) (*shelf.Layer, error) {
		return s.opts.Shelf.PutTree(key, uid, gid, s.opts.Now(), r)
	})
	if err != nil && ctx.Err() == nil && belljar.CodeOf(err) != belljar.CodeConflict {
		return nil, nil // a copy needs no disk space
	}
	return held, err
}

// On makes a layer the initial content of a placement; nil is none.
func (f *Source) On(p *placement.Placement, l *shelf.Layer) {
	p.Below, p.State = runtime.Below{}, ""
	switch {
	case l == nil:
	case f.Live():
		p.State = l.Dir
	default:
		p.Below = runtime.Below{Dir: l.Dir, Bytes: l.Bytes, Files: l.Files}
	}
}

// ownKey returns the key of the files with a digest that belong to a user.
func ownKey(digest string, uid, gid int) string {
	return fmt.Sprintf("%s-%d-%d", blobID(digest), uid, gid)
}

// Hold holds the unpacked files that a sandbox of a previous process uses, in any of these folders.
func (s *Snapshots) Hold(dirs ...string) (held []*shelf.Layer) {
	if s.opts.Shelf == nil {
		return nil
	}
	for _, dir := range dirs {
		if l, err := s.opts.Shelf.Hold(dir); err == nil {
			held = append(held, l)
		}
	}
	return held
}

// unpackedOf calls do for the unpacked files of a digest, after any concurrent unpacking.
func (s *Snapshots) unpackedOf(digest string, do func(kept *shelf.Shelf, key string)) {
	if s.opts.Shelf == nil {
		return
	}
	defer s.lock("", digest)()
	for _, key := range s.opts.Shelf.Keys() {
		if strings.HasPrefix(key, blobID(digest)) {
			do(s.opts.Shelf, key)
		}
	}
}

// Fill fills the workspace of a session's new sandbox, unless it began with a layer, restores its shell, and returns the shell's directory; "" if it has none.
func (f *Source) Fill(ctx context.Context, w Workspace, began *shelf.Layer) (cwd string, err error) {
	if f.Live() {
		return resume(ctx, w, began)
	}
	if began == nil {
		r, err := f.open(ctx)
		if err != nil {
			return "", err
		}
		defer r.Close()
		if err := load(ctx, w.Box(), r, w.Session().Workspace); err != nil {
			return "", err
		}
	}
	if f.shell == nil {
		return "", nil
	}
	return setShell(ctx, w, f.shell)
}
