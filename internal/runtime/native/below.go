//go:build linux

package native

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/overlay"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/runtime"
)

const stepOverlay = "overlay"

// layBelow returns a function that makes the file system of a workspace that begins with files, in the first process's mounts; nil for
// others. The process itself cannot make it: see package overlay.
func (r *Runtime) layBelow(spec runtime.Spec, ids *idmap.Range, user rootfs.User) (func(pid int) error, error) {
	below := spec.Workspace.Below
	if below.Dir == "" {
		return nil, nil
	}
	if err := r.below.of(below.Dir, nil); err != nil {
		return nil, runtime.FailedStep(stepOverlay, err, "")
	}
	inodes := spec.Workspace.Inodes
	if spec.Workspace.Exec {
		inodes += sharedInodes + overlayInodes
	}
	o := overlay.Order{
		Dir: below.Dir, Bytes: spec.Workspace.Bytes - below.Bytes, Files: inodes - below.Files, HostUID: ids.HostUID(user.UID), HostGID: ids.HostGID(user.GID),
	}
	return func(pid int) error {
		err := r.below.of(o.Dir, func() error { return overlay.Probe(pid, o, user.UID, user.GID) })
		if err == nil {
			err = overlay.Mount(pid, o)
		}
		if err != nil {
			return runtime.FailedStep(stepOverlay, err, "")
		}
		return nil
	}, nil
}

// probes caches the results of overlay probes on the file systems of this host.
type probes struct {
	mu    sync.Mutex
	known map[uint64]error // by the file system's device
}

// of finds out, once, whether a workspace can be an overlay over the file system of dir: [errors.ErrUnsupported] if not. With a nil probe
// it returns the cached result.
func (p *probes) of(dir string, probe func() error) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err, known := p.known[st.Dev]
	if known || probe == nil {
		return err
	}
	if err = probe(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return errors.Join(errors.ErrUnsupported, err) // not cached: the probe may have been cancelled
	}
	if p.known == nil {
		p.known = map[uint64]error{}
	}
	p.known[st.Dev] = err
	return err
}
