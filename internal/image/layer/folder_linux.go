package layer

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// folder is a folder on disk in the layer that is being unpacked. No other process writes there, so this tree stays
// accurate.
type folder struct {
	parent *folder
	name   string
	kids   map[string]*folder
	depth  int  // folders above it; 0 is the root
	named  bool // an entry describes it; otherwise the description in a lower layer stays
	attrs  bool // it may have extended attributes
	made   uint32
	mode   uint32
	mtime  unix.Timespec
}

// impliedBit marks a folder on disk that no entry named: the sticky bit, which no other file of a layer has.
const impliedBit = unix.S_ISVTX

// chain holds descriptors of a folder and those above it, since the next entry is mostly in the same folder.
type chain struct {
	root   int
	open   []link
	opened int // folders opened so far
}

type link struct {
	folder *folder
	fd     int
}

// fd returns a descriptor of f, which is valid until the next call.
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
	c.opened++
	return fd, nil
}

// cut closes the descriptors below a depth.
func (c *chain) cut(depth int) {
	for len(c.open) > depth {
		unix.Close(c.open[len(c.open)-1].fd)
		c.open = c.open[:len(c.open)-1]
	}
}

// forget closes f and all folders below it.
func (c *chain) forget(f *folder) {
	if len(c.open) >= f.depth && c.open[f.depth-1].folder == f {
		c.cut(f.depth - 1)
	}
}

// Limits of the search for the parents of all entries: folders opened, and names in links followed. The files of Debian's /usr, in a random
// order, need 4 for each.
const (
	freeWork  = 1 << 17
	entryWork = 32 // for each entry
)

// walked counts the search for the parents of the entries so far toward the limit of a layer.
func (u *unpacker) walked(entry string) error {
	if most := freeWork + entryWork*u.entries; u.here.opened+u.there.opened+u.linked > most {
		return above("walks", entry, int64(most), "the entries so far lead over more than %d folders and links", most)
	}
	return nil
}

// Limits of the search for the parents of one entry: links followed, and names looked up or contained in those links.
// MaxDepth names are allowed in addition.
const (
	maxHops  = 40
	maxSteps = 1024
)

// walk returns the folder at elements below the root, nil if it does not exist and create is false. It follows links
// inside the layer; the kernel never follows one.
func (u *unpacker) walk(entry string, elements []string, create bool) (*folder, error) {
	at, hops, steps := u.top, 0, 0
	for len(elements) > 0 {
		name := elements[0]
		elements = elements[1:]
		switch name {
		case "", ".":
			continue
		case "..": // from a link: split refuses it in names
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
		u.linked += len(stated)
		if steps += len(stated); steps > maxSteps+u.o.MaxDepth {
			return nil, refuse("symlink", entry, "its parents lead over more than %d names", maxSteps)
		}
		elements = append(stated, elements...)
	}
	return at, nil
}

// readlink returns the target of a symbolic link in f; "" if name is missing or not a link.
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

// mkdir makes a folder, and removes any other file of that name.
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

// clear removes a name, whatever it is.
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

// size counts f and the folders below it.
func (f *folder) size() int {
	n := 1
	for _, kid := range f.kids {
		n += kid.size()
	}
	return n
}

// settle sets the modes and times of folders, which would not survive changes in them.
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

// describe applies an entry's description to a folder.
func (f *folder) describe(mode int64, mtime time.Time) {
	f.named = true
	f.mode = folderMode(mode)
	f.mtime = timespec(mtime)
}
