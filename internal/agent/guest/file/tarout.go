//go:build linux

package file

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// tarOut packs a directory, one file, or Paths below a directory. It packs links as links and skips special files.
func (f *fileOp) tarOut() error {
	out := bufio.NewWriterSize(dataWriter{f.s}, wire.MaxData)
	p := &packer{f: f, w: tar.NewWriter(out)}
	names := []string{f.name}
	if len(f.req.Paths) > 0 {
		names = names[:0]
		for _, rel := range f.req.Paths {
			clean := path.Clean(rel)
			if path.IsAbs(rel) || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsRune(rel, 0) {
				return escapes(rel)
			}
			names = append(names, path.Join(f.name, clean))
		}
	}
	for _, name := range names {
		if err := p.pack(name); err != nil {
			return err
		}
	}
	if err := p.w.Close(); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.s.W.EOF()
}

// scanText is the size in bytes of the beginning of a file that must be text for a search.
const scanText = 8000

// scan packs the beginnings of the text files among Paths. It skips unreadable files.
func (f *fileOp) scan() error {
	out := bufio.NewWriterSize(dataWriter{f.s}, wire.MaxData)
	w := tar.NewWriter(out)
	buf := f.w.buffers.Get().(*[]byte)
	defer f.w.buffers.Put(buf)
	for _, rel := range f.req.Paths {
		name, err := f.w.place(path.Join(f.name, rel))
		if err != nil {
			return err
		}
		if err := f.scanFile(w, rel, name, *buf); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.s.W.EOF()
}

func (f *fileOp) scanFile(w *tar.Writer, shown, name string, buf []byte) error {
	var file *os.File
	err := f.as(func() (err error) {
		file, err = f.w.openUnlinked(name)
		return err
	})
	if err != nil {
		return nil
	}
	defer file.Close()
	if f.req.Limit > 0 {
		buf = buf[:min(int64(len(buf)), f.req.Limit)]
	}
	n, err := io.ReadFull(file, buf)
	size := int64(n)
	switch {
	case err == nil: // there may be more text
		if info, err := file.Stat(); err == nil {
			size = max(size, info.Size())
		}
		if f.req.Limit > 0 {
			size = min(size, f.req.Limit)
		}
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil
	}
	if bytes.IndexByte(buf[:min(n, scanText)], 0) >= 0 {
		return nil
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: shown, Mode: 0o644, Size: size}); err != nil {
		return err
	}
	if _, err := w.Write(buf[:n]); err != nil {
		return err
	}
	rest := size - int64(n)
	copied, err := io.CopyBuffer(onlyWriter{w}, io.LimitReader(file, rest), buf)
	if err != nil && errors.Is(err, fault.ErrDisconnected) {
		return err
	}
	_, err = io.CopyN(w, zeros{}, rest-copied)
	return err
}

// zeros is an endless reader of NULs.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// packer writes files into an archive.
type packer struct {
	f     *fileOp
	w     *tar.Writer
	saver *saver // nil unless the whole workspace is saved
}

// pack adds a path of the workspace and everything below.
func (p *packer) pack(name string) error {
	var info wire.FileInfo
	var dir *os.Root
	err := p.f.as(func() (err error) {
		return p.f.w.within(name, false, func(real string) (err error) {
			if info, err = describe(p.f.w.root, real, name); err != nil || info.Type == "dir" {
				return err
			}
			dir, err = openRoot(p.f.w.root, path.Dir(real))
			return err
		})
	})
	if err != nil {
		return err
	}
	if dir != nil {
		defer dir.Close()
		return p.add(info, dir, path.Base(name))
	}
	if name != p.f.name {
		if err := p.add(info, nil, ""); err != nil {
			return err
		}
	}
	w := &walker{f: p.f, left: maxEntries, visit: p.found, all: true}
	err = w.start(name, maxDepth)
	if errors.Is(err, errCut) || err == nil && w.cut {
		return fault.New(wire.CodeTooLarge, "%s has more than %d entries, or is deeper than %d", name, maxEntries, maxDepth)
	}
	return err
}

// found writes one entry of a folder, unless a program has meanwhile removed it or swapped it for a link.
func (p *packer) found(info wire.FileInfo, dir *os.Root, base string) error {
	err := p.add(info, dir, base)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) || fault.IsEscape(err) {
		return nil
	}
	return err
}

// add writes one entry.
func (p *packer) add(info wire.FileInfo, dir *os.Root, base string) error {
	// Round down to a second: a time in the future makes make print warnings.
	modified := time.Unix(0, info.ModTime).Truncate(time.Second)
	head := &tar.Header{Name: p.shown(info.Path), Mode: int64(info.Mode & 0o777), ModTime: modified}
	if p.saver != nil {
		head.ModTime, head.Format = time.Unix(0, info.ModTime), tar.FormatPAX
	}
	switch info.Type {
	case "dir":
		head.Typeflag, head.Name = tar.TypeDir, head.Name+"/"
		if p.saver != nil {
			if err := p.folder(head, dir, base); err != nil {
				return err
			}
		}
	case "symlink":
		head.Typeflag, head.Linkname = tar.TypeSymlink, info.Target
	case "file":
		return p.addFile(head, info, dir, base)
	default:
		return nil
	}
	return p.w.WriteHeader(head)
}

func (p *packer) addFile(head *tar.Header, info wire.FileInfo, dir *os.Root, base string) error {
	var file *os.File
	err := p.f.as(func() error {
		f, err := dir.OpenFile(base, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		file, err = checkRegular(info.Path, f, err)
		return err
	})
	if errors.Is(err, fs.ErrPermission) {
		return denied(info.Path)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	now, err := file.Stat()
	if err != nil {
		return err
	}
	head.Typeflag, head.Size = tar.TypeReg, now.Size()
	if p.saver != nil {
		if first := p.saver.link(head.Name, now); first != "" {
			head.Typeflag, head.Size, head.Linkname = tar.TypeLink, 0, first
			return p.w.WriteHeader(head)
		}
		if err := p.attributes(head, file); err != nil {
			return err
		}
	}
	// A file that grows meanwhile is cut to its earlier size. A small one is read before its header is written, since programs that rewrite a file
	// truncate it first.
	buf := p.f.w.buffers.Get().(*[]byte)
	defer p.f.w.buffers.Put(buf)
	begin, err := io.ReadFull(io.LimitReader(file, head.Size), *buf)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		head.Size = int64(begin)
	case err != nil:
		return err
	}
	if err := p.w.WriteHeader(head); err != nil {
		return err
	}
	if _, err := p.w.Write((*buf)[:begin]); err != nil {
		return err
	}
	rest := head.Size - int64(begin)
	n, err := io.CopyBuffer(onlyWriter{p.w}, io.LimitReader(file, rest), *buf)
	switch {
	case err != nil || n == rest:
		return err
	case p.saver == nil:
		return &wire.Error{Code: wire.CodeChanged, Message: info.Path + " has shrunk while it was packed", Path: info.Path}
	}
	_, err = io.CopyN(p.w, zeros{}, rest-n) // the save is reported as inconsistent
	return err
}

// shown returns a path in the archive: relative to the packed directory, or a single file's name.
func (p *packer) shown(name string) string {
	switch {
	case p.f.name == ".":
		return name
	case name == p.f.name:
		return path.Base(name)
	}
	return strings.TrimPrefix(name, p.f.name+"/")
}
