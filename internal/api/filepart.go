package api

import (
	"bytes"
	"context"
	"path"
	"strconv"
	"unicode/utf8"

	"github.com/belljar/belljar"
)

// defaultReadBytes is how much of a file a read as text returns that sets no max_bytes, maxReadBytes the most that it may
// ask for.
const (
	defaultReadBytes = 256 << 10
	maxReadBytes     = 8 << 20
)

// FilePart is a part of a file as an answer in JSON has it: as text where it is text.
type FilePart struct {
	Text *string // what was read, if it is valid UTF-8. A character that the bound cuts is left for the next read
	Raw  []byte  // what was read, if it is not
	Size int64   // bytes of the whole file
	Next int64   // where to read on; 0 if the file ends here
}

// Truncated reports whether the file goes on.
func (p FilePart) Truncated() bool { return p.Next > 0 }

// ReadPart reads at most limit bytes of a file from offset on; 0 is 256 KiB, at most 8 MiB.
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
	defer func() { _ = body.Close() }() // it has been read
	data := bytes.NewBuffer(make([]byte, 0, min(limit, max(0, entry.Size-offset))+bytes.MinRead))
	if _, err := data.ReadFrom(body); err != nil {
		return FilePart{}, err
	}
	return partOf(data.Bytes(), offset, entry.Size), nil
}

// partOf is what was read of a file from offset on.
func partOf(data []byte, offset, size int64) FilePart {
	out := FilePart{Size: size}
	truncated := offset+int64(len(data)) < size
	whole := data
	if truncated {
		whole = WholeEnd(data)
	}
	if utf8.Valid(whole) && (len(whole) > 0 || len(data) == 0) {
		text := string(whole)
		out.Text, data = &text, whole
	} else {
		out.Raw = data
	}
	if truncated {
		out.Next = offset + int64(len(data))
	}
	return out
}

// ParseMode reads permission bits as requests have them: three or four octal digits. "" is 0, for none given. The error is
// [belljar.CodeInvalidRequest].
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

// InWorkspace is a path of a request as programs in the sandbox know it; [belljar.WorkspaceDir] for one that cannot be cleaned.
func InWorkspace(given string) string {
	clean, err := belljar.CleanPath(given)
	if err != nil {
		return belljar.WorkspaceDir
	}
	return path.Join(belljar.WorkspaceDir, clean)
}
