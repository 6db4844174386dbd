// Package archive reads what callers upload (tar, gzipped tar, zip, single files) and writes it as one normalised tar
// stream. Nothing of an upload is given out before all of it has been checked: it lies in a nameless temporary file, is
// read once to judge it and a second time to pack it. Memory stays flat whatever the archives say of themselves.
//
// What is refused is refused as a whole, with an [belljar.Error] whose details name the entry and the rule it breaks:
//
//	path_escapes       traversal, absolute, backslash, drive
//	payload_too_large  bytes, files, ratio
//	invalid_request    depth, name (empty, too long), utf8, control, duplicate, clash (file against folder), twin (names
//	                   that are one where case or Unicode form do not count), symlink, hard_link, device, fifo, socket,
//	                   sparse, type, size, encrypted, method, zip64, overlap, trailing, cut_off, malformed
//
// Global pax headers are ignored; what a Mac adds are files like any other. Of modes only the permission bits stay.
package archive

import (
	"context"
	"iter"
	"time"

	"github.com/belljar/belljar"
)

// Limits bound one upload, all its parts together. A zero field is that of [DefaultLimits].
type Limits struct {
	Bytes int64 // of the files, unpacked
	Files int   // folders that are named count too, but twice as many entries may come
	Depth int   // folders above a file
	// Ratio is how many times larger than its bytes in the archive a file may be. It holds above [RatioFrom] only: small
	// files of one character are no attack.
	Ratio int
}

// RatioFrom is how large a file must be, in bytes, for [Limits.Ratio] to matter.
const RatioFrom = 1 << 20

// DefaultLimits are those of docs/compatibility.md#limits-and-defaults.
func DefaultLimits() Limits { return Limits{Bytes: 64 << 20, Files: 1000, Depth: 10, Ratio: 100} }

func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	if l.Bytes == 0 {
		l.Bytes = d.Bytes
	}
	if l.Files == 0 {
		l.Files = d.Files
	}
	if l.Depth == 0 {
		l.Depth = d.Depth
	}
	if l.Ratio == 0 {
		l.Ratio = d.Ratio
	}
	return l
}

// entries is how many entries an upload may have, folders and headers included.
func (l Limits) entries() int { return 2 * l.Files }

// raw is how many bytes an archive of what is allowed takes at most, before compression: every entry has a header and
// padding, and may have an extended one.
func (l Limits) raw() int64 { return l.Bytes + int64(l.entries())*4096 + 1<<20 }

// Entry is a file or folder of an upload. Path is clean and relative.
type Entry struct {
	Path    string
	Dir     bool
	Mode    uint32 // permission bits; a folder's owner can always use it
	Size    int64
	ModTime time.Time // zero if the upload does not say, or nonsense
}

// Options say what [Read] takes and where it keeps it meanwhile.
type Options struct {
	Limits Limits
	// TempDir is where the upload lies while it is checked and packed; "" is the system's temporary folder.
	TempDir string
	// Room is asked before more is kept there, and may refuse it; nil does not.
	Room func() error
}

// Read takes in an upload's parts, each to its end, and checks them together. The caller closes the bundle. A failure of
// a part's body is returned as [belljar.CodeInvalidRequest] with its cause, unless it is an [belljar.Error] itself.
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
