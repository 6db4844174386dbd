//go:build linux

package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/mount"
	"github.com/belljar/belljar/test/need"
)

const (
	testUser  = 3_000_001
	testBytes = 8 << 20
)

func capable(t *testing.T) {
	t.Helper()
	if why, hint := Missing(); why != "" {
		need.Missing(t, "%s: %s", why, hint)
	}
}

func made(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := Make(path, testBytes, 100); err != nil {
		t.Fatal(err)
	}
	return path
}

func mounted(t *testing.T, path string, attr mount.Attr) Tree {
	t.Helper()
	tree, err := Mount(path)
	if err == nil {
		err = tree.Owned(attr, ID{Owner, testUser, testUser})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

// as runs do as the user, on its own thread.
func as(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread is never unlocked, so it ends.
		runtime.LockOSThread()
		for _, call := range []uintptr{unix.SYS_SETFSGID, unix.SYS_SETFSUID} {
			unix.RawSyscall(call, testUser, 0, 0)
		}
		do()
	}()
	<-done
}

// An image has exactly the requested room, all of it allocated on the host's disk, and room for the requested number of
// files.
func TestRoom(t *testing.T) {
	capable(t)
	path := made(t)
	tree := mounted(t, path, 0)
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(tree.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if got := int64(st.Bavail) * st.Bsize; got != testBytes {
		t.Errorf("%d bytes are free, not %d", got, testBytes)
	}
	if st.Ffree < 100 || st.Ffree > 200 {
		t.Errorf("%d files have room", st.Ffree)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if held := info.Sys().(*syscall.Stat_t).Blocks * 512; held < info.Size() {
		t.Errorf("%d of %d bytes are on the disk", held, info.Size())
	}
	as(t, func() {
		fd, err := unix.Openat(int(tree.Fd()), "big", unix.O_CREAT|unix.O_WRONLY, 0o600)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		chunk, wrote := make([]byte, 1<<20), 0
		for {
			n, err := unix.Write(fd, chunk)
			if err != nil {
				if err != unix.ENOSPC {
					t.Error(err)
				}
				break
			}
			wrote += n
		}
		if wrote < testBytes-64<<10 || wrote > testBytes {
			t.Errorf("%d bytes fit", wrote)
		}
	})
}

// All mounts of an image are one file system; a read-only mount refuses writes; files belong to the sandbox's user.
func TestShared(t *testing.T) {
	capable(t)
	path := made(t)
	writer := mounted(t, path, 0)
	reader := mounted(t, path, mount.ReadOnly)
	as(t, func() {
		if err := unix.Mkdirat(int(writer.Fd()), "dir", 0o755); err != nil {
			t.Error(err)
		}
		if err := unix.Mkdirat(int(reader.Fd()), "other", 0o755); err != unix.EROFS {
			t.Errorf("a read-only mount: %v", err)
		}
	})
	var st unix.Stat_t
	if err := unix.Fstatat(int(reader.Fd()), "dir", &st, 0); err != nil || st.Uid != testUser || st.Gid != testUser {
		t.Errorf("the reader sees %d:%d, %v", st.Uid, st.Gid, err)
	}
	if err := unix.Mkdirat(int(writer.Fd()), "root", 0o755); err != unix.EOVERFLOW {
		t.Errorf("another user: %v", err)
	}
	if devices(t, path) != 1 {
		t.Errorf("%d devices", devices(t, path))
	}
	writer.Close()
	reader.Close()
	other := mounted(t, path, 0)
	if err := unix.Fstatat(int(other.Fd()), "dir", &st, 0); err != nil {
		t.Errorf("mounted again: %v", err)
	}
	if err := os.Remove(path); err != nil { // the mounts survive
		t.Fatal(err)
	}
	as(t, func() {
		if err := unix.Mkdirat(int(other.Fd()), "late", 0o755); err != nil {
			t.Error(err)
		}
	})
}

// devices counts the loop devices of an image.
func devices(t *testing.T, path string) (n int) {
	t.Helper()
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, name := range files {
		if has, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(has)) == path {
			n++
		}
	}
	return n
}

func TestRefusals(t *testing.T) {
	capable(t)
	path := made(t)
	if err := Make(path, testBytes, 100); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	if err := Make(filepath.Join(filepath.Dir(path), "huge"), 1<<43, 100); !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EFBIG) {
		t.Errorf("larger than the disk: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	damaged := filepath.Join(filepath.Dir(path), "damaged")
	if err := os.WriteFile(damaged, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Mount(damaged); err == nil || devices(t, damaged) != 0 {
		t.Errorf("a damaged image: %v, %d devices", err, devices(t, damaged))
	}
	lock := filepath.Join(filepath.Dir(path), "lock")
	first, err := Lock(lock)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(lock); !errors.Is(err, ErrBusy) {
		t.Errorf("a second writer: %v", err)
	}
	first.Close()
	if again, err := Lock(lock); err != nil {
		t.Error(err)
	} else {
		again.Close()
	}
	if err := Try(t.TempDir()); err != nil {
		t.Error(err)
	}
}
