// Package archive finds the image in an archive from a user: an OCI layout or a docker save archive, as tar, or a tar of a root file
// system.
package archive

import (
	"archive/tar"
	"context"
	"errors"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/manifest"
	"io"
	"os"
	"path"
	"strings"
)

// Archive is a tar in a file: images in one of the two forms, or a root file system. Only layers and small files of it are read, at
// their place in the file.
type Archive struct {
	File     *os.File
	Size     int64
	Digest   string            // of the whole file
	MaxFiles int               // entries
	Platform manifest.Platform // the platform of the chosen image
}

// member is an entry of an archive.
type member struct {
	at, size int64
	link     string // the entry that a link names; "" for a file
	hole     bool   // a sparse file, whose bytes in the archive are not its content
}

// Limits of a search in an archive.
const (
	mostMembers = 1 << 16 // entries that match
	mostHops    = 8       // links to links
)

// find reads the whole archive. It returns the entries whose names are wanted, the last one of each name, and the number of all
// entries.
func (a *Archive) find(ctx context.Context, wanted func(name string) bool) (map[string]member, int, error) {
	w := &window{f: a.File, size: a.Size}
	r := tar.NewReader(w)
	found := map[string]member{}
	for n := 0; ; n++ {
		h, err := r.Next()
		if errors.Is(err, tar.ErrInsecurePath) {
			err = nil // nothing is written under these names
		}
		switch {
		case errors.Is(err, io.EOF):
			return found, n, nil
		case err != nil && n == 0:
			return nil, 0, fault.Invalid("archive", "it is not a tar archive")
		case err != nil:
			return nil, 0, fault.Invalid("archive", "it is not a complete tar archive: %s", fault.Printable(err.Error()))
		case n >= a.MaxFiles:
			return nil, 0, fault.TooLarge("files", int64(a.MaxFiles), "the archive has more than %d entries", a.MaxFiles)
		case n%1024 == 0 && ctx.Err() != nil:
			return nil, 0, ctx.Err()
		}
		name, ok := inside(h.Name)
		if !ok || !wanted(name) {
			continue
		}
		m, ok := memberOf(h, name, w.at)
		if !ok {
			delete(found, name) // a folder or device takes its place
			continue
		}
		if found[name] = m; len(found) > mostMembers {
			return nil, 0, fault.TooLarge("files", mostMembers, "the archive has more than %d blobs", mostMembers)
		}
	}
}

func memberOf(h *tar.Header, name string, at int64) (m member, ok bool) {
	m = member{at: at, size: h.Size}
	switch h.Typeflag {
	case tar.TypeReg:
		for k := range h.PAXRecords {
			m.hole = m.hole || strings.HasPrefix(k, "GNU.sparse.")
		}
	case tar.TypeGNUSparse:
		m.hole = true
	case tar.TypeLink:
		m.link, ok = inside(h.Linkname)
		return m, ok
	case tar.TypeSymlink:
		if path.IsAbs(h.Linkname) {
			return m, false
		}
		m.link, ok = inside(path.Join(path.Dir(name), h.Linkname))
		return m, ok
	default:
		return m, false
	}
	return m, true
}

// inside returns a cleaned name without leading slashes, and whether it is inside the archive: .. must not lead out.
func inside(name string) (string, bool) {
	name = path.Clean(strings.TrimLeft(name, "/"))
	return name, name != "." && name != ".." && !strings.HasPrefix(name, "../") && !strings.ContainsRune(name, 0)
}

// open returns the files of names; links are followed within the archive. The result lacks missing files.
func (a *Archive) open(ctx context.Context, names []string) (map[string]*io.SectionReader, error) {
	stands := map[string]string{} // name → the entry that it resolves to so far
	for _, n := range names {
		if clean, ok := inside(n); ok {
			stands[n] = clean
		}
	}
	files := map[string]*io.SectionReader{}
	for range mostHops {
		looking := map[string]bool{}
		for n, to := range stands {
			if files[n] == nil {
				looking[to] = true
			}
		}
		if len(looking) == 0 {
			break
		}
		found, _, err := a.find(ctx, func(name string) bool { return looking[name] })
		if err != nil {
			return nil, err
		}
		for n, to := range stands {
			m, ok := found[to]
			switch {
			case files[n] != nil:
			case !ok:
				delete(stands, n)
			case m.link != "":
				stands[n] = m.link
			case m.hole:
				return nil, fault.Invalid("archive", "%q is a sparse file in the archive", fault.Printable(n))
			default:
				files[n] = io.NewSectionReader(a.File, m.at, m.size)
			}
		}
	}
	return files, nil
}

// small reads a file of an archive that fits into memory.
func small(r *io.SectionReader, what string, most int64) ([]byte, error) {
	if r.Size() > most {
		return nil, fault.Invalid("archive", "%s in the archive has %d bytes, more than %d", what, r.Size(), most)
	}
	data, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	if err != nil {
		return nil, fault.Wrap("read an archive", err)
	}
	return data, nil
}

// window reads a file through a buffer and knows its position.
type window struct {
	f        io.ReaderAt
	size, at int64
	buf      []byte
	start    int64 // of buf in the file
}

const windowBytes = 64 << 10

func (w *window) Read(p []byte) (int, error) {
	if w.at >= w.size {
		return 0, io.EOF
	}
	if w.at < w.start || w.at >= w.start+int64(len(w.buf)) {
		if w.buf == nil {
			w.buf = make([]byte, windowBytes)
		}
		n, err := w.f.ReadAt(w.buf[:min(windowBytes, w.size-w.at)], w.at)
		if n == 0 {
			return 0, err
		}
		w.buf, w.start = w.buf[:n], w.at
	}
	n := copy(p, w.buf[w.at-w.start:])
	w.at += int64(n)
	return n, nil
}

// Seek moves relative to the current position, at most to the end of the file. A tar reader skips files with it, by the sizes that
// they claim.
func (w *window) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekCurrent || offset < 0 {
		return 0, errors.ErrUnsupported
	}
	w.at += min(offset, w.size-w.at)
	return w.at, nil
}
