//go:build linux

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/runtime"
)

// mostRoots is how many images are remembered.
const mostRoots = 128

// lastID is the highest user and group: the ids inside are gVisor's own, and a signed number there.
const lastID = 1<<31 - 2

// rootKey is what a root that was looked at is known by. The folder of an image that was removed and unpacked again is
// another one.
type rootKey struct {
	dir      string
	user     rootfs.User
	dev, ino uint64
	changed  unix.Timespec
}

// held is an image that stays for as long as it is held: by us until the sandbox's keep does.
type held struct {
	lock *os.File // nil for one that is never removed
	tree *rootfs.Tree
}

func (h *held) close() {
	if h.lock != nil {
		h.lock.Close()
	}
}

// hold takes hold of an image and looks at it. It is [runtime.ErrNoImage] if it is not there.
func (r *Runtime) hold(ctx context.Context, root runtime.Root) (*held, error) {
	h := &held{}
	var err error
	if root.Lock != "" {
		if h.lock, err = lockImage(ctx, root.Lock); err != nil {
			return nil, missing(err)
		}
	}
	if h.tree, err = r.rootOf(root); err != nil {
		h.close()
		return nil, missing(err)
	}
	return h, nil
}

// missing is err, as the contract says it where that is that there is no such image.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", runtime.ErrNoImage, err)
	}
	return err
}

// rootOf looks at a root, and at an image that has not changed only once.
func (r *Runtime) rootOf(root runtime.Root) (*rootfs.Tree, error) {
	key := rootKey{dir: root.Dir, user: userOf(root)}
	if root.Dir != "" {
		var st unix.Stat_t
		if err := unix.Lstat(root.Dir, &st); err != nil {
			return nil, &fs.PathError{Op: "lstat", Path: root.Dir, Err: err}
		}
		key.dev, key.ino, key.changed = uint64(st.Dev), st.Ino, st.Ctim
	}
	r.mu.Lock()
	t, ok := r.roots[key]
	r.mu.Unlock()
	if ok {
		return t, nil
	}
	var err error
	if root.Dir == "" {
		t, err = rootfs.Host(key.user)
	} else {
		t, err = rootfs.Image(root.Dir, key.user)
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.roots) >= mostRoots {
		clear(r.roots)
	}
	r.roots[key] = t
	return t, nil
}

// lockImage opens an image's lock and takes a share of it. Whoever removes the image has all of it for a moment; the file
// that it is then may be another one, or none.
func lockImage(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		if err := share(ctx, f); err != nil {
			return nil, fmt.Errorf("lock image: %w", err)
		}
		var opened, named unix.Stat_t
		err = errors.Join(unix.Fstat(int(f.Fd()), &opened), unix.Lstat(path, &named))
		if err == nil && opened.Dev == named.Dev && opened.Ino == named.Ino {
			return f, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// share takes a shared lock on f, and closes f if it does not get it.
func share(ctx context.Context, f *os.File) error {
	err := flock(f, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		got := make(chan error, 1)
		go func() { got <- flock(f, unix.LOCK_SH) }()
		select {
		case err = <-got:
		case <-ctx.Done():
			go func() { <-got; f.Close() }() // nothing ends the wait but the lock
			return context.Cause(ctx)
		}
	}
	if err != nil {
		f.Close()
	}
	return err
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// userOf is whom programs run as.
func userOf(root runtime.Root) rootfs.User {
	return rootfs.User{UID: root.UID, GID: root.GID}.Fill()
}

// checkUser refuses a user that a sandbox cannot have.
func checkUser(root runtime.Root) error {
	u := userOf(root)
	if u.UID < 1 || u.UID > lastID || u.GID < 1 || u.GID > lastID {
		return &runtime.StepError{
			Step: stepUser, Err: fmt.Errorf("the image's user %d:%d is not within 1 and %d", u.UID, u.GID, lastID),
			Hint: "give the image another USER",
		}
	}
	return nil
}
