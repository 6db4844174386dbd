// Package archive reads uploads (tar, gzipped tar, zip, single files) and writes each as one normalised tar stream. It
// stores an upload in an unnamed temporary file, reads it once to check it and a second time to pack it. It passes
// nothing on before all of it is checked. Memory use is constant, regardless of the sizes that archives declare.
//
// An upload that breaks a rule is refused as a whole, with a [belljar.Error] whose details name the entry and the rule:
//
//	path_escapes       traversal, absolute, backslash, drive
//	payload_too_large  bytes, files, ratio
//	invalid_request    depth, name (empty, too long), utf8, control, duplicate, clash (file against folder), symlink,
//	                   hard_link, device, fifo, socket, sparse, type, size, encrypted, method, zip64, overlap, trailing, cut_off, malformed
//
// Global pax headers are ignored. The extra files of macOS archives count as ordinary files. Modes keep only their
// permission bits.
package archive

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/belljar/belljar"
)

// Limits bound one upload, all its parts together. A zero field means the value of [DefaultLimits].
type Limits struct {
	Bytes int64 // total size of the unpacked files
	Files int   // files and explicit folders; an upload may have twice as many entries
	Depth int   // number of folders above a file
	// Ratio is the largest allowed ratio of a file's unpacked to its packed size. It applies above [RatioFrom] only: small
	// files of one character are harmless.
	Ratio int
}

// RatioFrom is the file size, in bytes, above which [Limits.Ratio] applies.
const RatioFrom = 1 << 20

// DefaultLimits are those of docs/compatibility.md#limits-and-defaults.
func DefaultLimits() Limits { return Limits{Bytes: 64 << 20, Files: 1000, Depth: 10, Ratio: 100} }

func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	l.Bytes = cmp.Or(l.Bytes, d.Bytes)
	l.Files = cmp.Or(l.Files, d.Files)
	l.Depth = cmp.Or(l.Depth, d.Depth)
	l.Ratio = cmp.Or(l.Ratio, d.Ratio)
	return l
}

// entries returns the largest number of entries of an upload, including folders and headers.
func (l Limits) entries() int { return 2 * l.Files }

// raw returns the largest size of an allowed archive before compression: each entry has a header, padding and perhaps
// an extended header.
func (l Limits) raw() int64 { return l.Bytes + int64(l.entries())*4096 + 1<<20 }

// Entry is a file or folder of an upload. Path is clean and relative.
type Entry struct {
	Path    string
	Dir     bool
	Mode    uint32 // permission bits; a folder always has rwx for its owner
	Size    int64
	ModTime time.Time // zero if the upload has none, or an implausible one
}

// Options configure [Read].
type Options struct {
	Limits Limits
	// TempDir holds the upload while it is checked and packed; "" is the system's temporary folder.
	TempDir string
	// Room is called before each write to TempDir; its error refuses the upload. nil allows every write.
	Room func() error
}

// Read reads all parts of an upload to their ends and checks them together. The caller must close the bundle. A read
// error of a part becomes [belljar.CodeInvalidRequest] with its cause, unless it is a [belljar.Error].
func Read(ctx context.Context, parts iter.Seq2[belljar.UploadPart, error], o Options) (*Bundle, error) {
	b := &Bundle{limits: o.Limits.orDefault()}
	s, err := newSpool(o.TempDir)
	if err != nil {
		return nil, err
	}
	b.spool = s
	err = b.receive(ctx, parts, o.Room)
	if err == nil {
		err = b.check(ctx)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return b, nil
}
