//go:build linux

package native_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/runtime"
)

// TestNoOverlay holds that a workspace over a file system that cannot be below one is refused as such, each time, and leaves nothing.
func TestNoOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("without root there are no overlays")
	}
	r, dir := open(t, t.TempDir()), t.TempDir()
	if err := unix.Mount("none", dir, "ramfs", 0, ""); err != nil { // which has no idmapped mounts
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	if err := os.Mkdir(dir+"/lower", 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := spec()
		s.Workspace.Below = runtime.Below{Dir: dir + "/lower", Bytes: 1, Files: 1}
		if box, err := r.Create(context.Background(), s); !errors.Is(err, errors.ErrUnsupported) || box != nil {
			t.Fatalf("%v, %v", box, err)
		}
	}
	if ids, err := r.List(context.Background()); err != nil || len(ids) > 0 {
		t.Errorf("%v are left, %v", ids, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	// Over others there is one, by all that is known of them.
	s := spec()
	s.Workspace.Below = runtime.Below{Dir: t.TempDir(), Bytes: 1, Files: 1}
	var st unix.Statfs_t
	if err := unix.Statfs(s.Workspace.Below.Dir, &st); err != nil {
		t.Fatal(err)
	}
	if st.Type != unix.EXT4_SUPER_MAGIC && st.Type != unix.XFS_SUPER_MAGIC && st.Type != unix.BTRFS_SUPER_MAGIC {
		s.Workspace.Below = runtime.Below{}
	}
	if box, err := r.Create(context.Background(), s); err != nil {
		t.Error(err)
	} else if err := box.Destroy(context.Background()); err != nil {
		t.Error(err)
	}
}
