package layer

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// folder is one that is on disk in the layer being unpacked. Nothing else writes there, so this tree stays accurate.
type folder struct {
	parent *folder
	name   string
	kids   map[string]*folder
	depth  int  // folders above it; 0 is the root
	named  bool // an entry is about it; if none is, what a layer below states about it stays
	attrs  bool // it may have extended attributes
	made   uint32
	mode   uint32
	mtime  unix.Timespec
}

// impliedBit marks a folder on disk that no entry named: a sticky bit, which nothing else in a layer has.
const impliedBit = unix.S_ISVTX

// chain holds descriptors of a folder and those above it, since the next entry is mostly in the same one.
type chain struct {
	root int
	open []link
}

type link struct {
	folder *folder
	fd     int
}

// fd returns a descriptor of f, which is good until the next call.
func (c *chain) fd(f *folder) (int, error) {
	if f.parent == nil {
		return c.root, nil
	}
	if len(c.open) >= f.depth && c.open[f.depth-1].folder == f {
		return c.open[f.depth-1].fd, nil
	}
	above, err := c.fd(f.parent)
	if err != nil {
		return -1, err
	}
	c.cut(f.depth - 1)
	fd, err := openFolder(above, f.name)
	if err != nil {
		return -1, err
	}
	c.open = append(c.open, link{f, fd})
	return fd, nil
}

// cut closes what is open below a depth.
func (c *chain) cut(depth int) {
	for len(c.open) > depth {
		unix.Close(c.open[len(c.open)-1].fd)
		c.open = c.open[:len(c.open)-1]
	}
}

// forget closes f and what is below it.
func (c *chain) forget(f *folder) {
	if len(c.open) >= f.depth && c.open[f.depth-1].folder == f {
		c.cut(f.depth - 1)
	}
}

// The most that finding the parents of one entry may take: links followed, and names looked up or stated by those links
// besides those that MaxDepth allows anyway.
const (
	maxHops  = 40
	maxSteps = 1024
)

// walk returns the folder that elements lead to from the root, nil if there is none and create is false. Links on the
// way are followed inside the layer; the kernel never follows one.
func (u *unpacker) walk(entry string, elements []string, create bool) (*folder, error) {
	at, hops, steps := u.top, 0, 0
	for len(elements) > 0 {
		name := elements[0]
		elements = elements[1:]
		switch name {
		case "", ".":
			continue
		case "..": // a link's: split lets none through
			if at.parent != nil {
				at = at.parent
			}
			continue
		}
		if steps++; steps > maxSteps+u.o.MaxDepth {
			return nil, refuse("symlink", entry, "its parents lead in a circle")
		}
		if kid := at.kids[name]; kid != nil {
			at = kid
			continue
		}
		if isMark(name) && !isMeta(name) {
			return nil, refuse("whiteout", entry, "an entry below a whiteout")
		}
		if len(name) > maxElement {
			return nil, refuse("symlink", entry, "its parents lead to a name longer than %d bytes", maxElement)
		}
		target, err := u.readlink(at, name)
		if err != nil {
			return nil, failed("look at the parents of", entry, err)
		}
		if target == "" {
			if !create {
				return nil, nil
			}
			if at, err = u.mkdir(entry, at, name, 0o755|impliedBit); err != nil {
				return nil, err
			}
			continue
		}
		if hops++; hops > maxHops {
			return nil, refuse("symlink", entry, "its parents lead in a circle")
		}
		if target[0] == '/' {
			at = u.top
		}
		stated := strings.Split(target, "/")
		if steps += len(stated); steps > maxSteps+u.o.MaxDepth {
			return nil, refuse("symlink", entry, "its parents lead over more than %d names", maxSteps)
		}
		elements = append(stated, elements...)
	}
	return at, nil
}

// readlink returns the target of a symbolic link in f; "" if there is none of that name.
func (u *unpacker) readlink(f *folder, name string) (string, error) {
	fd, err := u.here.fd(f)
	if err != nil {
		return "", err
	}
	n, err := unix.Readlinkat(fd, name, u.buf[:maxPath+1])
	switch err {
	case nil:
		return string(u.buf[:n]), nil
	case unix.ENOENT, unix.EINVAL: // nothing there, or no link
		return "", nil
	}
	return "", err
}

// mkdir makes a folder in the place of whatever else has its name.
func (u *unpacker) mkdir(entry string, parent *folder, name string, mode uint32) (*folder, error) {
	if mode&impliedBit != 0 {
		if err := u.count(entry); err != nil {
			return nil, err
		}
	}
	if u.folders++; u.folders > maxFolders {
		return nil, above("folders", entry, maxFolders, "the layer has more than %d folders", maxFolders)
	}
	if parent.depth > u.o.MaxDepth {
		return nil, u.tooDeep(entry)
	}
	at, err := u.here.fd(parent)
	if err != nil {
		return nil, failed("open the parent of", entry, err)
	}
	err = unix.Mkdirat(at, name, mode)
	if err == unix.EEXIST {
		if err = u.clear(parent, name); err == nil {
			err = unix.Mkdirat(at, name, mode)
		}
	}
	if err == nil && u.masked&0o700 != 0 {
		err = unix.Fchmodat(at, name, mode, 0)
	}
	if err != nil {
		return nil, failed("make the folder", entry, err)
	}
	f := &folder{parent: parent, name: strings.Clone(name), depth: parent.depth + 1, made: mode, mode: mode}
	if parent.kids == nil {
		parent.kids = map[string]*folder{}
	}
	parent.kids[f.name] = f
	u.stats.Folders++
	return f, nil
}

// clear removes what has a name, whatever it is.
func (u *unpacker) clear(parent *folder, name string) error {
	if kid := parent.kids[name]; kid != nil {
		u.here.forget(kid)
		u.there.forget(kid)
		u.folders -= kid.size()
		delete(parent.kids, name)
	}
	at, err := u.here.fd(parent)
	if err != nil {
		return err
	}
	return removeAt(at, name)
}

// size is how many folders f is, with those below it.
func (f *folder) size() int {
	n := 1
	for _, kid := range f.kids {
		n += kid.size()
	}
	return n
}

// settle gives folders their modes and times, which would not have stayed while things were put into them.
func (u *unpacker) settle(f *folder) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	at, name := u.here.root, "."
	if f.parent != nil {
		var err error
		if at, err = u.here.fd(f.parent); err != nil {
			return failed("open the parent of", f.path(), err)
		}
		name = f.name
	}
	if f.mode != f.made || u.masked&f.mode != 0 || u.inherited {
		if err := unix.Fchmodat(at, name, f.mode, 0); err != nil {
			return failed("set the mode of", f.path(), err)
		}
	}
	if f.named {
		if err := setTime(at, name, f.mtime); err != nil {
			return failed("set the time of", f.path(), err)
		}
	}
	for _, kid := range f.kids {
		if err := u.settle(kid); err != nil {
			return err
		}
	}
	return nil
}

// within reports whether f is another folder, which may be nil, or below it.
func (f *folder) within(other *folder) bool {
	for ; f != nil && other != nil; f = f.parent {
		if f == other {
			return true
		}
	}
	return false
}

// path is a folder's name in the layer.
func (f *folder) path() string {
	if f.parent == nil {
		return "."
	}
	if f.parent.parent == nil {
		return f.name
	}
	return f.parent.path() + "/" + f.name
}

// describe takes over what an entry states about a folder.
func (f *folder) describe(mode int64, mtime time.Time) {
	f.named = true
	f.mode = folderMode(mode)
	f.mtime = timespec(mtime)
}
