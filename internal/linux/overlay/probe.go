//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// attribute is an extended attribute of a file of the probe.
const attribute = "user.belljar"

// Probe returns an error if a workspace over files next to o.Dir would behave differently from one in memory. It makes a workspace in the
// mount namespace of the process pid, and removes it again. uid and gid are its owner's ids in the user namespace of that process. A
// missing feature of the system is [errors.ErrUnsupported]. After other errors, e.g. if the process has ended, the next probe may succeed.
func Probe(pid int, o Order, uid, gid int) (err error) {
	o.Bytes, o.Files = probeBytes, probeFiles // o may have less left
	// If this process is killed, the sweep of the layers' folder removes what has this ending.
	if o.Dir, err = os.MkdirTemp(filepath.Dir(o.Dir), "probe-*.new"); err != nil {
		return err
	}
	defer os.RemoveAll(o.Dir)
	if err := prepare(o.Dir, uid, gid); err != nil {
		return err
	}
	return within(pid, o.Dir, func(lower int) error { return lacks(o.probe(lower)) })
}

// probeBytes and probeFiles are the size of a probe's memory file system.
const probeBytes, probeFiles = 1 << 20, 100

func (o Order) probe(lower int) error {
	if err := o.mount(lower); err != nil {
		return err
	}
	defer func() { _ = unix.Chdir("/"); _ = unix.Unmount(o.Dir, unix.MNT_DETACH) }()
	at, err := unix.Open(Workspace, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return o.try(at)
}

// prepare makes the lower files of a probe.
func prepare(dir string, uid, gid int) error {
	in := func(name string) string { return filepath.Join(dir, name) }
	err := os.Chmod(dir, 0o755)
	for _, name := range []string{"folder/below", "gone/below"} {
		err = errors.Join(err, os.MkdirAll(in(name), 0o755))
	}
	for _, name := range []string{"folder/below/file", "gone/below/file", "one"} {
		err = errors.Join(err, os.WriteFile(in(name), []byte("lower"), 0o600))
	}
	err = errors.Join(err, os.Link(in("one"), in("two")), unix.Setxattr(in("one"), attribute, []byte("x"), 0))
	return errors.Join(err, filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(name, uid, gid))
	}))
}

// try uses an overlay like programs use a workspace, including operations that some overlays get wrong.
func (o Order) try(at int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(at, "one", &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if int(st.Uid) != o.HostUID || int(st.Gid) != o.HostGID {
		return fmt.Errorf("lower files belong to %d:%d, and not to %d:%d", st.Uid, st.Gid, o.HostUID, o.HostGID)
	}
	if err := unix.Renameat(at, "folder", at, "moved"); err != nil {
		return step("rename a folder", err)
	}
	if err := unix.Fstatat(at, "moved/below/file", &st, 0); err != nil {
		return step("look into a renamed folder", err)
	}
	err := unix.Unlinkat(at, "gone/below/file", 0)
	for _, name := range []string{"gone/below", "gone"} {
		err = errors.Join(err, unix.Unlinkat(at, name, unix.AT_REMOVEDIR))
	}
	if err := errors.Join(err, unix.Mkdirat(at, "gone", 0o755)); err != nil {
		return step("make a folder again", err)
	}
	if err := unix.Fstatat(at, "gone/below", &st, 0); err != unix.ENOENT {
		return fmt.Errorf("a folder that was made again has the former one's files: %v", err) //nolint:errorlint // it may be nil
	}
	return tryNames(at)
}

// tryNames writes to a lower file by one of its names.
func tryNames(at int) error {
	one, err := unix.Openat(at, "one", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return step("write to a lower file", err)
	}
	defer unix.Close(one)
	if _, err := unix.Pwrite(one, []byte("upper"), 0); err != nil {
		return step("write to a lower file", err)
	}
	two, err := unix.Openat(at, "two", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(two)
	var text [8]byte
	var st unix.Stat_t
	n, err := unix.Pread(two, text[:], 0)
	if err = errors.Join(err, unix.Fstat(two, &st)); err != nil {
		return err
	}
	if string(text[:n]) != "upper" || st.Nlink != 2 {
		return errors.New("the other name of a file that was written to has its former contents")
	}
	// A memory file system may have no attributes (Linux before 6.6): workspaces have none there.
	if unix.Fsetxattr(one, attribute+".more", []byte("y"), 0) == nil {
		if n, err := unix.Fgetxattr(two, attribute, text[:]); err != nil || string(text[:n]) != "x" {
			return fmt.Errorf("a file that was written to has lost its attribute: %v", err) //nolint:errorlint // it may be nil
		}
	}
	return nil
}
