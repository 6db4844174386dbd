package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/belljar/belljar"
)

// Bundle is a checked upload. The caller must close it.
type Bundle struct {
	limits Limits
	spool  *spool
	parts  []part
	files  int
	bytes  int64
}

// part is one file or archive in the spool.
type part struct {
	name   string
	format belljar.UploadFormat
	body   *io.SectionReader
}

// Files returns the number of files, without folders.
func (b *Bundle) Files() int { return b.files }

// Bytes returns the total size of the files.
func (b *Bundle) Bytes() int64 { return b.bytes }

// Close deletes the upload.
func (b *Bundle) Close() error { return b.spool.close() }

// receive spools all parts, and stops when there is no room.
func (b *Bundle) receive(ctx context.Context, parts iter.Seq2[belljar.UploadPart, error], room func() error) error {
	check := func() error {
		if err := context.Cause(ctx); err != nil || room == nil {
			return err
		}
		return room()
	}
	for p, err := range parts {
		if err != nil {
			return unreadable(ctx, err)
		}
		if len(b.parts) == b.limits.entries() {
			return b.tooMany()
		}
		body, err := b.spool.take(p.Body, b.limits.raw()-b.spool.size, check)
		var broken *writeError
		switch {
		case err == nil:
		case errors.Is(err, errFull):
			return above("bytes", p.Name, b.limits.Bytes, "the upload is larger than %d bytes", b.limits.Bytes)
		case errors.As(err, &broken):
			return internal("no room for the upload", err)
		default:
			return unreadable(ctx, err)
		}
		b.parts = append(b.parts, part{name: p.Name, format: p.Format, body: body})
	}
	return context.Cause(ctx)
}

// check reads every part to its end and applies the rules.
func (b *Bundle) check(ctx context.Context) error {
	seen := set{}
	entries := 0
	judge := func(e Entry, r io.Reader) error {
		if entries++; entries > b.limits.entries() {
			return b.tooMany()
		}
		if err := seen.add(e); err != nil {
			return err
		}
		if e.Dir {
			return nil
		}
		if b.files++; b.files > b.limits.Files {
			return b.tooMany()
		}
		if b.bytes += e.Size; b.bytes > b.limits.Bytes {
			return above("bytes", e.Path, b.limits.Bytes, "the files hold more than %d bytes together", b.limits.Bytes)
		}
		return copyExactly(e, r, io.Discard)
	}
	for _, p := range b.parts {
		err := b.read(ctx, p, judge)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			return malformed(p.format, p.name, err)
		}
	}
	return nil
}

func (b *Bundle) tooMany() error {
	return above("files", "", int64(b.limits.Files), "more than %d files", b.limits.Files)
}

// WriteTar writes the upload as one tar stream, with folders and files in the order of the upload. It may be called
// repeatedly.
func (b *Bundle) WriteTar(ctx context.Context, w io.Writer) error {
	out := tar.NewWriter(w)
	put := func(e Entry, r io.Reader) error {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.Path, Mode: int64(e.Mode), Size: e.Size, ModTime: e.ModTime}
		if e.Dir {
			h.Typeflag, h.Name = tar.TypeDir, e.Path+"/"
		}
		// Without PAX the time would be rounded to seconds. A file edited just after a build could then seem older than
		// its output, and make would not rebuild it. A zero time becomes the time of unpacking.
		if h.ModTime.Nanosecond() != 0 {
			h.Format = tar.FormatPAX
		}
		if err := out.WriteHeader(h); err != nil {
			return fmt.Errorf("pack %s: %w", e.Path, err)
		}
		if e.Dir {
			return nil
		}
		return copyExactly(e, r, out)
	}
	for _, p := range b.parts {
		if err := b.read(ctx, p, put); err != nil {
			return err
		}
	}
	return out.Close()
}

// copyExactly copies an entry whose contents must have exactly the size in its header.
func copyExactly(e Entry, r io.Reader, w io.Writer) error {
	n, err := io.CopyN(w, r, e.Size)
	if errors.Is(err, io.EOF) {
		return refuse("size", e.Path, "%s holds %d bytes instead of %d", shown(e.Path), n, e.Size)
	}
	if err != nil {
		return err
	}
	var more [1]byte
	for {
		n, err := r.Read(more[:])
		if n > 0 {
			return refuse("size", e.Path, "%s holds more than the %d bytes that it declares", shown(e.Path), e.Size)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err // for example a wrong checksum
		}
	}
}

// visit handles one entry and, if it is a file, reads its contents.
type visit func(e Entry, r io.Reader) error

// read visits the entries of a part. It checks names, types and formats before it calls v.
func (b *Bundle) read(ctx context.Context, p part, v visit) error {
	checked := func(e Entry, r io.Reader) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return v(e, r)
	}
	body := io.NewSectionReader(p.body, 0, p.body.Size())
	switch p.format {
	case belljar.UploadFile:
		return b.single(p, body, checked)
	case belljar.UploadTar:
		return b.tar(body, checked)
	case belljar.UploadTarGz:
		return b.gzip(body, checked)
	case belljar.UploadZip:
		return b.zip(body, checked)
	}
	return refuse("type", p.name, "unknown upload format %q", p.format)
}

// single visits the only entry of a plain file.
func (b *Bundle) single(p part, body *io.SectionReader, v visit) error {
	name, err := cleanName(p.name, false, b.limits)
	if err != nil {
		return err
	}
	return v(Entry{Path: name, Mode: fileMode, Size: body.Size()}, body)
}
