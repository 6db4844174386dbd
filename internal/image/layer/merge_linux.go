package layer

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"
)

// Merge fills root, an existing empty folder, from layers that [Unpack] has written, the lowest first: new folders and
// hard links to the layers' files, or copies if links are impossible. It writes to no file of a layer. A folder without
// an entry of its own keeps the mode and time of lower layers.
//
// It fails with [belljar.CodeDiskFull] if there is no room, or ctx's error. The files that it has made by then stay.
func Merge(ctx context.Context, root string, layers []string) (Stats, error) {
	into, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Stats{}, failed("open the root", root, err)
	}
	defer unix.Close(into)
	if err := unix.Fchmod(into, 0o755); err != nil { // for an image without layers
		return Stats{}, failed("set the mode of", root, err)
	}
	m := &merger{ctx: ctx}
	for i, dir := range layers {
		from, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return m.stats, failed("open the layer", dir, err)
		}
		m.copies = false
		err = m.fill(from, into, nil, i == 0, ".")
		unix.Close(from)
		if err != nil {
			return m.stats, err
		}
	}
	return m.stats, openToAll(into, root)
}

// openToAll opens a root to every user: the mode that a layer gives its own top folder must not close the image.
func openToAll(into int, root string) error {
	var st unix.Stat_t
	err := unix.Fstat(into, &st)
	if err == nil && st.Mode&0o555 != 0o555 {
		err = unix.Fchmod(into, st.Mode&0o777|0o555)
	}
	if err != nil {
		return failed("set the mode of", root, err)
	}
	return nil
}

// merger merges layers into one root.
type merger struct {
	ctx     context.Context
	stats   Stats
	buffers buffers
	copies  bool // links to this layer do not work
}

// fill merges an open folder of a layer into one of the root. fresh means that the root's folder is new: then marks have
// nothing to hide.
func (m *merger) fill(from, into int, path []string, fresh bool, name string) error {
	var st, was unix.Stat_t
	err := unix.Fstat(from, &st)
	if err == nil {
		err = unix.Fstat(into, &was)
	}
	if err != nil {
		return m.failed(path, name, err)
	}
	mode, mtime := st.Mode&0o777, st.Mtim
	if !fresh && st.Mode&impliedBit != 0 {
		mode, mtime = was.Mode&0o777, was.Mtim
	} else {
		if !fresh {
			clearAttrs(into)
		}
		copyAttrs(from, into)
	}
	if !fresh {
		if err := m.hide(from, into, path); err != nil {
			return err
		}
	}
	if err := m.entries(from, into, path); err != nil {
		return err
	}
	if was.Mode&0o7777 != mode {
		if err := unix.Fchmod(into, mode); err != nil {
			return m.failed(path, name, err)
		}
	}
	if err := setTime(into, ".", mtime); err != nil {
		return m.failed(path, name, err)
	}
	return nil
}

// hide removes the files that the marks in a layer's folder hide.
func (m *merger) hide(from, into int, path []string) error {
	names, err := list(from, m.buffers.at(len(path)))
	for err == nil {
		var name string
		if name, _, err = names.next(); err != nil || name == "" {
			break
		}
		switch {
		case !isMark(name) || isMeta(name):
			continue
		case name == opaque:
			err = emptyAt(into)
		default:
			hidden, ok := whiteoutOf(name)
			if !ok {
				err = unix.EINVAL
				break
			}
			err = removeAt(into, hidden)
		}
		m.stats.Whiteouts++
	}
	if err != nil {
		return m.failed(path, "", err)
	}
	return nil
}

// entries merges the contents of a layer's folder, except for its marks.
func (m *merger) entries(from, into int, path []string) error {
	names, err := list(from, m.buffers.at(len(path)))
	if err != nil {
		return m.failed(path, "", err)
	}
	for {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		name, kind, err := names.next()
		if err == nil && name == "" {
			return nil
		}
		switch {
		case err != nil:
		case isMark(name):
			continue
		case kind == unix.DT_DIR:
			if err := m.folder(from, into, path, name); err != nil {
				return err
			}
		case kind == unix.DT_REG:
			m.stats.Files++
			err = m.link(from, into, name)
		case kind == unix.DT_LNK:
			m.stats.Symlinks++
			err = m.link(from, into, name)
		default:
			err = unix.EINVAL // Unpack makes no other types
		}
		if err != nil {
			return m.failed(path, name, err)
		}
	}
}

// folder merges a folder of a layer.
func (m *merger) folder(from, into int, path []string, name string) error {
	layer, err := openFolder(from, name)
	if err != nil {
		return m.failed(path, name, err)
	}
	defer unix.Close(layer)
	root, fresh, err := m.mkdir(into, name)
	if err != nil {
		return m.failed(path, name, err)
	}
	defer unix.Close(root)
	return m.fill(layer, root, append(path, name), fresh, "")
}

// mkdir opens a folder of the root. If it is missing, mkdir makes it, and removes any other file of that name.
func (m *merger) mkdir(into int, name string) (fd int, fresh bool, err error) {
	err = unix.Mkdirat(into, name, 0o700)
	if err == unix.EEXIST {
		if fd, err = openFolder(into, name); err != unix.ENOTDIR && err != unix.ELOOP {
			return fd, false, err
		}
		if err = removeAt(into, name); err == nil {
			err = unix.Mkdirat(into, name, 0o700)
		}
	}
	if err != nil {
		return -1, false, err
	}
	m.stats.Folders++
	fd, err = openMine(into, name) // whatever the umask
	return fd, true, err
}

// link gives a layer's file a name in the root, and removes any other file of that name.
func (m *merger) link(from, into int, name string) error {
	err := m.try(from, into, name)
	if err == unix.EEXIST {
		if err = removeAt(into, name); err == nil {
			err = m.try(from, into, name)
		}
	}
	return err
}

func (m *merger) try(from, into int, name string) error {
	if !m.copies {
		err := unix.Linkat(from, name, into, name, 0)
		if !cannotLink(err) {
			return err
		}
		m.copies = err != unix.EMLINK
	}
	n, err := copyAt(m.ctx, from, into, name, name)
	if err == nil {
		m.stats.Copied++
		m.stats.Bytes += n
	}
	return err
}

// buffers are memory for the names of one folder at each depth.
type buffers [][]byte

func (b *buffers) at(depth int) []byte {
	for len(*b) <= depth {
		*b = append(*b, make([]byte, 16<<10))
	}
	return (*b)[depth]
}

func (m *merger) failed(path []string, name string, err error) error {
	if name != "" {
		path = append(path, name)
	}
	return failed("merge", strings.Join(path, "/"), err)
}
