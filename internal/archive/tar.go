package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"strings"

	"github.com/belljar/belljar"
)

// tar visits the entries of a tar stream.
func (b *Bundle) tar(body io.Reader, v visit) error {
	tail := &tailReader{r: body}
	r := tar.NewReader(tail)
	for n := 0; ; n++ {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if n == b.limits.entries() {
			return b.tooMany()
		}
		if head.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		e, err := b.tarEntry(head)
		if err != nil {
			return err
		}
		if e.Path == "." {
			continue // the target folder itself
		}
		if err := v(e, r); err != nil {
			return err
		}
	}
	return tail.finish()
}

// tarEntry checks a header.
func (b *Bundle) tarEntry(head *tar.Header) (Entry, error) {
	kind, name := head.Typeflag, head.Name
	if err := checkTarType(kind, name); err != nil {
		return Entry{}, err
	}
	for key := range head.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return Entry{}, refuse("sparse", name, "%s is a sparse file", shown(name))
		}
	}
	dir := kind == tar.TypeDir
	clean, err := cleanName(name, dir, b.limits)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Path: clean, Dir: dir, Mode: permissions(uint32(head.Mode), dir), Size: head.Size, ModTime: plausible(head.ModTime)}
	if dir {
		e.Size = 0
	}
	return e, nil
}

func checkTarType(kind byte, name string) error {
	switch kind {
	case tar.TypeReg, tar.TypeDir:
		return nil
	case tar.TypeSymlink:
		return special("symlink", name, "a symbolic link")
	case tar.TypeLink:
		return special("hard_link", name, "a hard link")
	case tar.TypeChar, tar.TypeBlock:
		return special("device", name, "a device")
	case tar.TypeFifo:
		return special("fifo", name, "a FIFO")
	case tar.TypeGNUSparse:
		return refuse("sparse", name, "%s is a sparse file", shown(name))
	}
	return refuse("type", name, "%s is of the unknown type %q", shown(name), kind)
}

// gzip visits the entries of a tar stream in one gzip stream, which must have no trailing bytes.
func (b *Bundle) gzip(body *io.SectionReader, v visit) error {
	in := bufio.NewReader(body)
	z, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	z.Multistream(false)
	out := &ratioReader{r: z, packed: body.Size(), limits: b.limits}
	if err := b.tar(out, v); err != nil {
		return err
	}
	if _, err := in.ReadByte(); err != io.EOF {
		return refuseArchive("trailing", "there is data after the end of the gzip stream")
	}
	return nil
}

// ratioReader bounds the unpacked size of a compressed stream.
type ratioReader struct {
	r        io.Reader
	packed   int64
	unpacked int64
	limits   Limits
}

func (r *ratioReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.unpacked += int64(n)
	if r.unpacked > r.limits.raw() {
		return n, above("bytes", "", r.limits.Bytes, "the archive unpacks to more than %d bytes", r.limits.Bytes)
	}
	if e := r.limits.checkRatio("", r.packed, r.unpacked); e != nil {
		return n, e
	}
	return n, err
}

// checkRatio returns an error if the compression ratio exceeds the limit.
func (l Limits) checkRatio(entry string, packed, unpacked int64) *belljar.Error {
	if unpacked <= RatioFrom || unpacked/int64(l.Ratio) <= packed {
		return nil
	}
	return above("ratio", entry, int64(l.Ratio), "the archive unpacks to more than %d times its size", l.Ratio)
}

// endMark is the number of zero bytes that end a tar stream.
const endMark = 1024

// tailReader checks the end of a stream, which a tar reader does not: it takes a stream that is cut between two entries
// for complete, and does not read past the end mark.
type tailReader struct {
	r     io.Reader
	zeros int64 // zero bytes at the end of the read part
}

func (t *tailReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	zeros := 0
	for zeros < n && p[n-1-zeros] == 0 {
		zeros++
	}
	if zeros < n {
		t.zeros = 0
	}
	t.zeros += int64(zeros)
	return n, err
}

// finish reads the rest, which must be padding.
func (t *tailReader) finish() error {
	if t.zeros < endMark {
		return refuseArchive("cut_off", "the archive is cut off: its end mark is missing")
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := t.Read(buf)
		if n > 0 && t.zeros < int64(n) {
			return refuseArchive("trailing", "there is data after the end of the archive")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
