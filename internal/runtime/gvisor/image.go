//go:build linux

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/runtime"
)

// lastID is the highest user and group: the ids inside are gVisor's own, and a signed number there.
const lastID = 1<<31 - 2

// hold takes hold of an image and looks at it. It is [runtime.ErrNoImage] if it is not there.
func (r *Runtime) hold(ctx context.Context, root runtime.Root) (*rootfs.Held, error) {
	held, err := r.roots.Hold(ctx, root.Dir, root.Lock, userOf(root))
	return held, missing(err)
}

// missing is err, as the contract says it where that is that there is no such image.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", runtime.ErrNoImage, err)
	}
	return err
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
