package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strconv"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/char"
)

// The default and the maximum of max_bytes in a read of a file.
const (
	defaultReadBytes = 256 << 10
	maxReadBytes     = 8 << 20
)

// FilePart is a part of a file for a JSON response: Text if the bytes are valid UTF-8, else Raw.
type FilePart struct {
	Text *string // ends with a complete character; the next read returns a character that the limit cuts
	Raw  []byte
	Size int64  // bytes of the whole file
	Next int64  // offset of the next read; 0 at the end of the file
	ETag string // of the file, if this is the whole: see [belljar.FileEntry]
}

// Truncated reports whether the file has more bytes after this part.
func (p FilePart) Truncated() bool { return p.Next > 0 }

// ReadPart reads at most limit bytes of a file, starting at offset. The limit is at most 8 MiB; 0 means 256 KiB.
func ReadPart(ctx context.Context, files belljar.FileReader, sessionID, name string, offset, limit int64) (FilePart, error) {
	switch {
	case limit == 0:
		limit = defaultReadBytes
	case limit < 0 || limit > maxReadBytes:
		e := Refuse("max_bytes", "max_bytes must be between 1 and %d, got %d", maxReadBytes, limit)
		e.Details["provided"], e.Details["maximum"] = limit, maxReadBytes
		return FilePart{}, e
	}
	entry, body, err := files.Read(ctx, sessionID, name, offset, limit)
	if err != nil {
		return FilePart{}, err
	}
	defer func() { _ = body.Close() }() // read only
	data := bytes.NewBuffer(make([]byte, 0, min(limit, max(0, entry.Size-offset))+bytes.MinRead))
	if _, err := data.ReadFrom(body); err != nil {
		return FilePart{}, err
	}
	part := partOf(data.Bytes(), offset, entry.Size)
	if offset == 0 && !part.Truncated() {
		sum := sha256.Sum256(data.Bytes())
		part.ETag = `"` + hex.EncodeToString(sum[:]) + `"`
	}
	return part, nil
}

// partOf returns data, read from offset of a file of size bytes, as a part.
func partOf(data []byte, offset, size int64) FilePart {
	out := FilePart{Size: size}
	truncated := offset+int64(len(data)) < size
	whole := data
	if truncated {
		whole = char.WholeEnd(data)
	}
	if utf8.Valid(whole) && (len(whole) > 0 || len(data) == 0) {
		out.Text, data = new(string(whole)), whole
	} else {
		out.Raw = data
	}
	if truncated {
		out.Next = offset + int64(len(data))
	}
	return out
}

// ParseMode parses the permission bits of a request: three or four octal digits. "" is 0, for the default. The error
// is [belljar.CodeInvalidRequest].
func ParseMode(s string) (uint32, error) {
	if s == "" {
		return 0, nil
	}
	bits, err := strconv.ParseUint(s, 8, 32)
	if err != nil || len(s) < 3 || len(s) > 4 || bits > 0o777 || bits == 0 {
		e := Refuse("mode", "mode %.20q is not three or four octal digits such as 0644", s)
		e.Details["provided"] = s
		return 0, e
	}
	return uint32(bits), nil
}

// InWorkspace returns the absolute path inside the sandbox for a path in a request; [belljar.WorkspaceDir] if it is
// invalid.
func InWorkspace(given string) string {
	clean, err := belljar.CleanPath(given)
	if err != nil {
		return belljar.WorkspaceDir
	}
	return path.Join(belljar.WorkspaceDir, clean)
}
