//go:build linux

package native_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/test/need"
)

// TestNoOverlay tests that a workspace over an unsuitable file system is refused with that reason, each time, and leaves nothing.
func TestNoOverlay(t *testing.T) {
	need.Root(t)
	r, dir := open(t, t.TempDir()), t.TempDir()
	if err := unix.Mount("none", dir, "ramfs", 0, ""); err != nil { // without idmapped mounts
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
	// The cached result does not affect other file systems.
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

// The files that a workspace begins with do not count as memory of its programs.
func TestMemoryOverFiles(t *testing.T) {
	r, dir := open(t, t.TempDir()), t.TempDir()
	needGroups(t, r)
	for name, exec := range map[string]bool{"executable": true, "not executable": false} {
		t.Run(name, func(t *testing.T) {
			s := small()
			s.Workspace.Bytes, s.Workspace.Exec, s.Workspace.Below = 96<<20, exec, runtime.Below{Dir: dir, Bytes: 4096, Files: 1}
			box, err := r.Create(t.Context(), s)
			if errors.Is(err, errors.ErrUnsupported) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if out, exit := script(t, box.Dial, hold(smallMB*8/10, "dd if=/dev/zero of=/workspace/f bs=4k count=16k 2>/dev/null; wc -c </workspace/f")); out != "67108864\n" {
				t.Errorf("a program within its limit writes %q, %+v", out, exit)
			}
			u, err := box.Usage(t.Context())
			if err != nil || u.Files == nil || *u.Files < 64<<20 || *u.Files > 66<<20 || *u.Memory > smallMB<<20 {
				t.Errorf("files hold %+v, %v", u, err)
			}
			if out, exit := script(t, box.Dial, tooMuch); out != "" {
				t.Errorf("a program above its limit: %q, %+v", out, exit)
			}
		})
	}
}
