package archive

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// zip visits the entries of a zip archive, in the order of its directory.
func (b *Bundle) zip(body *io.SectionReader, v visit) error {
	directory, err := b.checkDirectory(body)
	if err != nil {
		return err
	}
	r, err := zip.NewReader(body, body.Size())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // names are checked below
		return err
	}
	if len(r.File) > b.limits.entries() {
		return b.tooMany()
	}
	if err := checkOverlap(r.File, directory); err != nil {
		return err
	}
	for _, f := range r.File {
		e, err := b.zipEntry(f)
		if err != nil {
			return err
		}
		if e.Path == "." {
			continue
		}
		if err := visitZip(f, e, v); err != nil {
			return err
		}
	}
	return nil
}

func visitZip(f *zip.File, e Entry, v visit) error {
	if e.Dir {
		return v(e, strings.NewReader(""))
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	return v(e, r)
}

// The encryption flags of an entry: of its contents, strong encryption, and of the directory.
const encrypted = 1<<0 | 1<<6 | 1<<13

// zipEntry checks a directory entry.
func (b *Bundle) zipEntry(f *zip.File) (Entry, error) {
	if err := checkZipType(f); err != nil {
		return Entry{}, err
	}
	dir := strings.HasSuffix(f.Name, "/")
	name, err := cleanName(f.Name, dir, b.limits)
	if err != nil {
		return Entry{}, err
	}
	switch size := f.UncompressedSize64; {
	case f.Flags&encrypted != 0:
		return Entry{}, refuse("encrypted", f.Name, "%s is encrypted", shown(f.Name))
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return Entry{}, refuse("method", f.Name, "%s is compressed in a way that is not known here (%d)", shown(f.Name), f.Method)
	case dir && size > 0:
		return Entry{}, refuse("size", f.Name, "%s is a folder with contents", shown(f.Name))
	case size > uint64(b.limits.Bytes):
		return Entry{}, above("bytes", f.Name, b.limits.Bytes, "%s is larger than %d bytes", shown(f.Name), b.limits.Bytes)
	}
	// Both sizes fit: checkOverlap has checked that the packed bytes are in the spool.
	if err := b.limits.checkRatio(f.Name, int64(f.CompressedSize64), int64(f.UncompressedSize64)); err != nil {
		return Entry{}, err
	}
	return Entry{
		Path: name, Dir: dir, Mode: zipMode(f, dir), Size: int64(f.UncompressedSize64),
		ModTime: plausible(f.Modified),
	}, nil
}

// zipMode returns an entry's mode if it was packed on a system with Unix modes.
func zipMode(f *zip.File, dir bool) uint32 {
	const unix, darwin = 3, 19
	if made := f.CreatorVersion >> 8; made != unix && made != darwin {
		return permissions(0, dir)
	}
	return permissions(uint32(f.Mode().Perm()), dir)
}

func checkZipType(f *zip.File) error {
	mode := f.Mode().Type()
	switch {
	case mode == fs.ModeDir && !strings.HasSuffix(f.Name, "/"):
		return refuse("type", f.Name, "%s is a folder with the name of a file", shown(f.Name))
	case mode == 0, mode == fs.ModeDir:
		return nil
	case mode&fs.ModeSymlink != 0:
		return special("symlink", f.Name, "a symbolic link")
	case mode&fs.ModeDevice != 0:
		return special("device", f.Name, "a device")
	case mode&fs.ModeNamedPipe != 0:
		return special("fifo", f.Name, "a FIFO")
	case mode&fs.ModeSocket != 0:
		return special("socket", f.Name, "a socket")
	}
	return refuse("type", f.Name, "%s is of an unknown type", shown(f.Name))
}

// checkOverlap refuses entries that share bytes: such a small archive can unpack to a huge one although each entry looks
// harmless. directory is the offset at which the entries must have ended.
func checkOverlap(files []*zip.File, directory int64) error {
	type span struct {
		name       string
		start, end int64
	}
	const header = 30 // size of an entry's header before its name
	spans := make([]span, 0, len(files))
	for _, f := range files {
		data, err := f.DataOffset()
		if err != nil {
			return err
		}
		packed := f.CompressedSize64
		if data > directory || packed > uint64(directory-data) {
			return refuse("size", f.Name, "%s is larger than its archive", shown(f.Name))
		}
		spans = append(spans, span{f.Name, data - header - int64(len(f.Name)), data + int64(packed)})
	}
	slices.SortFunc(spans, func(x, y span) int {
		return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.end, y.end))
	})
	for i := 1; i < len(spans); i++ {
		if spans[i].start < spans[i-1].end {
			return refuse("overlap", spans[i].name, "%s shares bytes with %s", shown(spans[i].name), shown(spans[i-1].name))
		}
	}
	return nil
}

// The record at the end of a zip archive.
const (
	endMagic   = "PK\x05\x06"
	endSize    = 22
	maxComment = 1<<16 - 1
)

// checkDirectory checks the record at an archive's end before the directory is read. The record must be at the very end.
// The directory must be directly before it, and no larger than an allowed archive needs. Archives that need zip64 exceed
// the limits anyway. It returns the offset of the directory.
func (b *Bundle) checkDirectory(body *io.SectionReader) (offset int64, err error) {
	tail := make([]byte, min(body.Size(), endSize+maxComment))
	if _, err := body.ReadAt(tail, body.Size()-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0, internal("read the upload", err)
	}
	at := bytes.LastIndex(tail, []byte(endMagic))
	if at < 0 || len(tail)-at < endSize {
		return 0, refuseArchive("malformed", "not a zip archive, or cut off: the record at its end is missing")
	}
	end := tail[at:]
	disk, here, count := binary.LittleEndian.Uint32(end[4:]), binary.LittleEndian.Uint16(end[8:]), binary.LittleEndian.Uint16(end[10:])
	size, begin := binary.LittleEndian.Uint32(end[12:]), binary.LittleEndian.Uint32(end[16:])
	position := body.Size() - int64(len(end))
	switch {
	case here == 1<<16-1 || count == 1<<16-1 || size == 1<<32-1 || begin == 1<<32-1:
		e := refuseArchive("zip64", "zip64 archives are not supported: an upload within the limits needs none")
		e.Hint = "make the archive from files rather than from a stream"
		return 0, e
	case disk != 0 || here != count:
		return 0, refuseArchive("malformed", "the archive is one part of several")
	case len(end) != endSize+int(binary.LittleEndian.Uint16(end[20:])):
		return 0, refuseArchive("trailing", "there is data after the end of the archive")
	case int(count) > b.limits.entries() || int64(size) > int64(b.limits.entries())*maxName:
		return 0, b.tooMany()
	case int64(begin)+int64(size) != position:
		return 0, refuseArchive("malformed", "the directory of the archive is not where it should be")
	}
	return int64(begin), b.checkCount(body, int64(begin), int64(size), int(count))
}

// checkCount counts the entries of the directory and compares them with the number in the end record.
func (b *Bundle) checkCount(body *io.SectionReader, offset, size int64, count int) error {
	const fixed = 46
	dir := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(body, offset, size), dir); err != nil {
		return internal("read the upload", err)
	}
	n := 0
	for len(dir) >= fixed && string(dir[:4]) == "PK\x01\x02" {
		long := fixed + int(binary.LittleEndian.Uint16(dir[28:])) + int(binary.LittleEndian.Uint16(dir[30:])) + int(binary.LittleEndian.Uint16(dir[32:]))
		if long > len(dir) {
			break
		}
		dir = dir[long:]
		n++
	}
	if n != count || len(dir) > 0 {
		return refuseArchive("malformed", "the directory of the archive does not hold the %d entries that it declares", count)
	}
	return nil
}
