package spool

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/blob"
)

// tape stores the artifacts of one run, one after the other in one file.
type tape struct {
	putting sync.Mutex // held by Put; locked before mu
	end     int64      // offset of the next artifact; owned by the writer

	mu    sync.Mutex
	users int      // reference count: the store, its writers and readers; the last one closes the file
	file  *os.File // nil before the first Put
	name  string   // of the file on systems that need one; else ""
	parts map[string]part
	last  time.Time // of the last Put
}

// part is the position of an artifact in the file.
type part struct{ at, size int64 }

// put stores the bytes of r under path.
func (t *tape) put(ctx context.Context, dir, path string, r io.Reader) (blob.Info, error) {
	t.putting.Lock()
	defer t.putting.Unlock()
	file, err := t.ready(dir)
	if err != nil {
		return blob.Info{}, err
	}
	info, err := blob.Receive(ctx, io.NewOffsetWriter(file, t.end), r)
	if err != nil {
		_ = file.Truncate(t.end) // if that fails, the next Put overwrites the bytes
		return blob.Info{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parts[path] = part{t.end, info.Size}
	t.last = time.Now()
	t.end += info.Size
	return info, nil
}

// ready returns the tape's file, and creates it first if it is missing.
func (t *tape) ready(dir string) (*os.File, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		f, name, err := nameless(dir)
		if err != nil {
			return nil, fmt.Errorf("make a file for artifacts: %w", err)
		}
		t.file, t.name = f, name
	}
	return t.file, nil
}

// open returns a reader of the artifact at path from offset on.
func (t *tape) open(path string, offset int64) (io.ReadCloser, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.parts[path]
	if !ok {
		return nil, blob.ErrNotFound
	}
	if offset < 0 {
		return nil, fmt.Errorf("open artifact %q: negative offset", path)
	}
	offset = min(offset, p.size)
	t.users++
	return &reader{SectionReader: io.NewSectionReader(t.file, p.at+offset, p.size-offset), tape: t}, nil
}

// since returns the time of the last Put.
func (t *tape) since() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// hold adds a reference.
func (t *tape) hold() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users++
}

// release drops a reference. The last one closes the file.
func (t *tape) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users--
	if t.users == 0 && t.file != nil {
		t.file.Close()
		if t.name != "" {
			_ = os.Remove(t.name)
		}
		t.file = nil
	}
}

// reader reads one artifact.
type reader struct {
	*io.SectionReader
	tape *tape
	once sync.Once
}

// Close releases the tape. It may be called twice.
func (r *reader) Close() error {
	r.once.Do(r.tape.release)
	return nil
}
