package layer

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// Unpack writes the layer in r, an uncompressed tar archive, into dir, an existing empty folder. It reads r to its end,
// beyond the end of the archive, so that r can be verified. Whiteouts stay as marks, for [Merge].
//
// It fails with [belljar.CodeImageInvalid] if the layer breaks a rule, [belljar.CodeDiskFull] if there is no room, ctx's
// error, or r's error, wrapped. The files that it has written by then stay: the caller must remove dir (see [Remove]),
// and may use only a layer that was unpacked to its end.
func Unpack(ctx context.Context, r io.Reader, dir string, o Options) (Stats, error) {
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Stats{}, failed("open the folder of the layer", dir, err)
	}
	defer unix.Close(root)
	u := &unpacker{
		ctx: ctx, o: o.orDefault(), top: &folder{mode: 0o755 | impliedBit}, buf: make([]byte, 256<<10),
		here: chain{root: root}, there: chain{root: root},
	}
	defer u.here.cut(0)
	defer u.there.cut(0)
	if err := u.probe(); err != nil {
		return Stats{}, failed("write to the folder of the layer", dir, err)
	}
	if err := u.all(r); err != nil {
		return u.stats, err
	}
	return u.stats, u.settle(u.top)
}

// unpacker unpacks one layer.
type unpacker struct {
	ctx       context.Context
	o         Options
	stats     Stats
	entries   int
	folders   int
	bytes     int64
	linked    int // names in the links that were followed
	top       *folder
	here      chain  // to the folder of the entry
	there     chain  // to the folder of a hard link's target
	masked    uint32 // permission bits that the umask removes
	inherited bool   // folders inherit bits from their parents
	buf       []byte
}

// all unpacks every entry, and reads r to its end.
func (u *unpacker) all(r io.Reader) error {
	s := &source{ctx: u.ctx, r: r, limit: u.o.stream(), left: u.o.stream()}
	buffered := bufio.NewReaderSize(s, 128<<10)
	archive := tar.NewReader(buffered)
	last := ""
	for {
		h, err := archive.Next()
		if errors.Is(err, tar.ErrInsecurePath) {
			err = nil // names are checked here
		}
		if err == io.EOF {
			break
		}
		if err == nil {
			last = h.Name
			err = u.entry(h, archive)
		} else if s.err == nil {
			err = malformed(last, err)
		}
		if err != nil {
			return s.first(err)
		}
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{buffered}, u.buf); err != nil {
		return s.first(err)
	}
	return nil
}

// probe finds out how this file system and the umask change modes, so that files need not be checked one by one.
func (u *unpacker) probe() error {
	const name, wanted = ".wh..wh.probe", 0o777 | impliedBit
	if err := unix.Mkdirat(u.here.root, name, wanted); err != nil {
		return err
	}
	var st unix.Stat_t
	err := unix.Fstatat(u.here.root, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	u.masked = wanted &^ st.Mode
	u.inherited = st.Mode&0o7777&^wanted != 0
	return errors.Join(err, unix.Unlinkat(u.here.root, name, unix.AT_REMOVEDIR))
}

// count counts an entry toward the limit of a layer.
func (u *unpacker) count(entry string) error {
	if u.entries++; u.entries > u.o.MaxFiles {
		return above("files", entry, int64(u.o.MaxFiles), "the layer has more than %d entries", u.o.MaxFiles)
	}
	return nil
}

// room counts bytes of files and attributes toward the limit of a layer.
func (u *unpacker) room(entry string, size int64) error {
	if size > u.o.MaxBytes-u.bytes {
		return above("bytes", entry, u.o.MaxBytes, "the files of the layer have more than %d bytes", u.o.MaxBytes)
	}
	u.bytes += size
	return nil
}

func (u *unpacker) tooDeep(entry string) error {
	return above("depth", entry, int64(u.o.MaxDepth), "more than %d folders above it", u.o.MaxDepth)
}

// entry unpacks one entry.
func (u *unpacker) entry(h *tar.Header, contents io.Reader) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // it describes the archive, e.g. its commit
	}
	if err := u.count(h.Name); err != nil {
		return err
	}
	if err := u.walked(h.Name); err != nil {
		return err
	}
	elements, err := split(h.Name, h.Name)
	if err != nil {
		return err
	}
	if len(elements) == 0 {
		return u.root(h)
	}
	parent, err := u.walk(h.Name, elements[:len(elements)-1], true)
	if err != nil {
		return err
	}
	if parent.depth > u.o.MaxDepth {
		return u.tooDeep(h.Name)
	}
	name := elements[len(elements)-1]
	switch {
	case name == opaque:
		return u.mark(h.Name, parent, opaque, whiteoutMode)
	case isMark(name) && !isMeta(name):
		return u.mark(h.Name, parent, name, whiteoutMode)
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return u.file(h, parent, name, contents)
	case tar.TypeDir:
		return u.dir(h, parent, name)
	case tar.TypeSymlink:
		return u.symlink(h, parent, name)
	case tar.TypeLink:
		return u.hardLink(h, parent, name)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return u.node(h, parent, name)
	}
	return refuse("type", h.Name, "an entry of type %q", h.Typeflag)
}

// root applies an entry's description to the layer's root.
func (u *unpacker) root(h *tar.Header) error {
	if h.Typeflag != tar.TypeDir {
		return refuse("name", h.Name, "the root is a folder")
	}
	u.top.describe(h.Mode, h.ModTime)
	return u.folderAttrs(h, u.top)
}

// dir makes a folder, or updates an existing one.
func (u *unpacker) dir(h *tar.Header, parent *folder, name string) error {
	f := parent.kids[name]
	if f == nil {
		made, err := u.mkdir(h.Name, parent, name, folderMode(h.Mode))
		if err != nil {
			return err
		}
		f = made
	}
	f.describe(h.Mode, h.ModTime)
	return u.folderAttrs(h, f)
}

// place makes a new file with create, after removing any file of that name, and returns the descriptor of its folder.
func (u *unpacker) place(parent *folder, name string, create func(at int) error) (at int, err error) {
	if at, err = u.here.fd(parent); err != nil {
		return at, err
	}
	if err = create(at); err != unix.EEXIST {
		return at, err
	}
	if err = u.clear(parent, name); err != nil {
		return at, err
	}
	return at, create(at)
}

// file writes a regular file.
func (u *unpacker) file(h *tar.Header, parent *folder, name string, contents io.Reader) error {
	if err := u.room(h.Name, h.Size); err != nil {
		return err
	}
	mode, fd := fileMode(h.Mode), -1
	at, err := u.place(parent, name, func(at int) (err error) {
		fd, err = openat(at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, mode)
		return err
	})
	if err != nil {
		return failed("make the file", h.Name, err)
	}
	err = u.fill(h, fd, mode, contents)
	if e := unix.Close(fd); err == nil && e != nil && e != unix.EINTR {
		err = failed("write", h.Name, e)
	}
	if err != nil {
		return err
	}
	if err := setTime(at, name, timespec(h.ModTime)); err != nil {
		return failed("set the time of", h.Name, err)
	}
	u.stats.Files++
	u.stats.Bytes += h.Size
	return nil
}

// fill writes a file's contents and everything but its time.
func (u *unpacker) fill(h *tar.Header, fd int, mode uint32, contents io.Reader) error {
	for left := h.Size; left > 0; {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(contents, u.buf[:min(left, int64(len(u.buf)))])
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return malformed(h.Name, err)
		}
		if err := writeAll(fd, u.buf[:n]); err != nil {
			return failed("write", h.Name, err)
		}
		left -= int64(n)
	}
	chmod := u.masked&mode != 0
	if len(h.PAXRecords) > 0 && hasAttrs(h) {
		// Writing attributes needs write permission in the file's mode.
		chmod = unix.Fchmod(fd, mode|0o600) == nil
		if err := u.attrs(h, fd); err != nil {
			return err
		}
	}
	if chmod {
		if err := unix.Fchmod(fd, mode); err != nil {
			return failed("set the mode of", h.Name, err)
		}
	}
	return nil
}
