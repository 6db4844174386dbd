//go:build linux

package file

import (
	"io/fs"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// target is an unfinished file. Listings hide its temporary name, which it gets at the end if it can: a file without a name is not left in a
// volume by a killed sandbox.
type target struct {
	staging   *staging
	dir       *os.File
	from      *os.File // folder of the temporary file: dir, or the top of the workspace
	file      *os.File
	base      string
	temporary string
	unnamed   bool
	hidden    string // path of the temporary file
}

func (t *target) close() {
	t.dir.Close()
	t.from.Close()
	if t.file != nil {
		t.file.Close()
	}
	t.staging.drop(t.hidden)
}

// beginTarget creates the temporary file. If it needs a name, and top is set, it moves to the top of the workspace, where sweep finds it
// after the agent was killed.
func (f *fileOp) beginTarget(name string, mode fs.FileMode, top bool) (*target, error) {
	t := &target{staging: &f.w.staging, base: path.Base(name)}
	if f.req.Parents {
		if err := f.w.within(path.Dir(name), true, func(name string) error { return f.w.root.MkdirAll(name, 0o755) }); err != nil {
			return nil, err
		}
	}
	unique, err := uniqueName()
	if err != nil {
		return nil, err
	}
	if t.dir, err = f.w.openDir(path.Dir(name)); err != nil {
		return nil, err
	}
	t.from, t.temporary = t.dir, ".belljar-"+unique
	t.hidden = path.Join(path.Dir(name), t.temporary)
	t.staging.add(t.hidden)
	if !f.w.named {
		if t.file, err = createIn(t.dir, ".", unix.O_TMPFILE, mode); err == nil {
			t.unnamed = true
			return t, nil
		}
	}
	if t.file, err = createIn(t.dir, t.temporary, newFile, mode); err != nil { // gVisor, and some file systems
		t.close()
		return nil, err
	}
	if top {
		f.moveToTop(t, stagePrefix+unique)
	}
	return t, nil
}

// moveToTop moves the temporary file to the top of the workspace, if the user and the file systems allow that.
func (f *fileOp) moveToTop(t *target, name string) {
	top, err := f.w.openDir(".")
	if err != nil {
		return
	}
	t.staging.add(name)
	if renameIn(t.dir, t.temporary, top, name, true) != nil {
		t.staging.drop(name)
		top.Close()
		return
	}
	t.staging.drop(t.hidden)
	t.from, t.temporary, t.hidden = top, name, name
}

// link gives the file its temporary name.
func (t *target) link() error {
	if !t.unnamed {
		return nil
	}
	t.unnamed = false
	from := "/proc/self/fd/" + strconv.Itoa(int(t.file.Fd()))
	return unix.Linkat(unix.AT_FDCWD, from, int(t.dir.Fd()), t.temporary, unix.AT_SYMLINK_FOLLOW)
}
