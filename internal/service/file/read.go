package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

// Read opens a file. The session is in use until the caller closes it.
func (v view) Read(ctx context.Context, id, path string, offset, limit int64) (belljar.FileEntry, io.ReadCloser, error) {
	none := belljar.FileEntry{}
	clean, err := filePath("path", path)
	if err != nil {
		return none, nil, err
	}
	if offset < 0 || limit < 0 {
		return none, nil, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "offset and limit must not be negative", Details: map[string]any{"field": "offset"},
		}
	}
	u, err := v.stream(ctx, id)
	if err != nil {
		return none, nil, err
	}
	req := u.File(clean)
	req.Offset, req.Limit = offset, limit
	body, info, err := u.Agent.ReadFile(u.ctx, req)
	if err != nil {
		defer u.end()
		return none, nil, u.fault(clean, err)
	}
	info.Path = clean
	left := max(0, info.Size-offset)
	if limit > 0 {
		left = min(left, limit)
	}
	return entryOf(info), &reader{u: u, path: clean, body: body, left: left}, nil
}

// reader reads a file up to its size at the time of opening.
type reader struct {
	u    *use
	path string
	body io.ReadCloser
	left int64
	last time.Time
	once sync.Once
}

func (b *reader) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.body.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.last = b.u.flows(b.last)
	if err != nil && err != io.EOF {
		err = b.u.fault(b.path, err)
	}
	return n, err
}

// errEnough ends a copy at its limit.
var errEnough = errors.New("enough")

// WriteTo copies without an intermediate buffer.
func (b *reader) WriteTo(w io.Writer) (int64, error) {
	if b.left == 0 {
		return 0, nil
	}
	out := &bounded{b: b, w: w}
	_, err := io.Copy(out, b.body)
	switch {
	case out.err != nil:
		err = out.err
	case errors.Is(err, errEnough):
		err = nil
	case err != nil:
		err = b.u.fault(b.path, err)
	}
	return out.written, err
}

// bounded passes on at most the rest of a file.
type bounded struct {
	b       *reader
	w       io.Writer
	written int64
	err     error // from w
}

func (s *bounded) Write(p []byte) (int, error) {
	n, err := s.w.Write(p[:min(int64(len(p)), s.b.left)])
	s.written += int64(n)
	s.b.left -= int64(n)
	s.b.last = s.b.u.flows(s.b.last)
	if s.err = err; err == nil && s.b.left == 0 {
		err = errEnough
	}
	return n, err
}

// Close ends the use of the session. It may be called twice.
func (b *reader) Close() (err error) {
	b.once.Do(func() {
		err = b.body.Close()
		b.u.end()
	})
	return err
}

// Stat describes the entry at a path.
func (v view) Stat(ctx context.Context, id, path string) (belljar.FileEntry, error) {
	clean, err := filePath("path", path)
	if err != nil {
		return belljar.FileEntry{}, err
	}
	u, err := v.begin(ctx, id)
	if err != nil {
		return belljar.FileEntry{}, err
	}
	defer u.end()
	info, err := u.Agent.Stat(u.ctx, u.File(clean))
	if err != nil {
		return belljar.FileEntry{}, u.fault(clean, err)
	}
	info.Path = clean
	return entryOf(info), nil
}

// entryBytes bounds the average size of the paths, and targets of links, in a listing: doors reserve memory for as many entries as a request allows.
const entryBytes = 256

// errListed ends a listing at its limit.
var errListed = errors.New("the listing is long enough")

// List lists a directory; a file lists itself.
func (v view) List(ctx context.Context, id string, q belljar.FileQuery) (belljar.FileList, error) {
	none := belljar.FileList{}
	clean, err := folderPath("path", q.Path)
	if err != nil {
		return none, err
	}
	switch {
	case q.Limit == 0:
		q.Limit = defaultListEntries
	case q.Limit < 0 || q.Limit > maxListEntries:
		return none, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("limit must be between 1 and %d, got %d", maxListEntries, q.Limit),
			Details: map[string]any{"field": "limit", "maximum": maxListEntries},
		}
	}
	u, err := v.beginIf(ctx, id, q.Ready)
	if err != nil {
		return none, err
	}
	defer u.end()
	req := u.File(clean)
	req.Limit = int64(q.Limit)
	walk := u.Agent.EachEntry
	if q.Recursive {
		walk = u.Agent.Walk
	}
	list := belljar.FileList{Entries: []belljar.FileEntry{}}
	left := max(q.Limit, defaultListEntries) * entryBytes
	list.Truncated, err = walk(u.ctx, req, func(f wire.FileInfo) error {
		if left -= len(f.Path) + len(f.Target); len(list.Entries) == q.Limit || left < 0 {
			return errListed
		}
		list.Entries = append(list.Entries, entryOf(f))
		return nil
	})
	var refused *wire.Error
	switch {
	case errors.Is(err, errListed):
		list.Truncated = true
	case errors.As(err, &refused) && refused.Errno == wire.ENOTDIR:
		info, err := u.Agent.Stat(u.ctx, u.File(clean))
		if err != nil {
			return none, u.fault(clean, err)
		}
		info.Path = clean
		list.Entries = append(list.Entries, entryOf(info))
	case err != nil:
		return none, u.fault(clean, err)
	}
	slices.SortFunc(list.Entries, func(a, b belljar.FileEntry) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// Space returns the usage of a workspace.
func (v view) Space(ctx context.Context, id string) (belljar.Space, error) {
	u, err := v.begin(ctx, id)
	if err != nil {
		return belljar.Space{}, err
	}
	defer u.end()
	s, err := u.Agent.Space(u.ctx, u.File("."))
	if err != nil {
		return belljar.Space{}, u.fault(".", err)
	}
	return belljar.Space{Bytes: s.Bytes, Files: s.Files, MaxBytes: s.MaxBytes, MaxFiles: s.MaxFiles}, nil
}
