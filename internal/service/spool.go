package service

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// spool is one file that holds bytes one behind the other. The file has no name where the system allows that, so that
// it is gone when this process is, however that ends.
type spool struct {
	dir string // where the file is made; "" is the system's temporary folder

	mu       sync.Mutex
	file     *os.File // nil before the first append
	end      int64
	readers  int
	released bool
}

// append adds what r holds and returns where it begins and how long it is. After an error the spool is as before.
func (s *spool) append(r io.Reader) (offset, n int64, err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp(s.dir, "belljar-artifacts-"); err != nil {
			return 0, 0, fmt.Errorf("make a file for artifacts: %w", err)
		}
		_ = os.Remove(s.file.Name()) // where an open file keeps its name, close removes it
	}
	offset = s.end
	n, err = io.Copy(io.NewOffsetWriter(s.file, offset), r)
	if err != nil {
		return 0, 0, fmt.Errorf("keep an artifact: %w", err)
	}
	s.end += n
	return offset, n, nil
}

// open returns a reader of n bytes from offset.
func (s *spool) open(offset, n int64) (io.ReadCloser, error) {
	if n == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return nil, errors.New("artifacts are gone")
	}
	s.readers++
	return &spoolReader{SectionReader: io.NewSectionReader(s.file, offset, n), spool: s}, nil
}

// release closes the file, when the last reader is done with it.
func (s *spool) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	s.close()
}

// close closes the file if nobody needs it. The caller holds the lock.
func (s *spool) close() {
	if s.released && s.readers == 0 && s.file != nil {
		s.file.Close()
		_ = os.Remove(s.file.Name()) // it has no name already on most systems
		s.file = nil
	}
}

// spoolReader reads one artifact.
type spoolReader struct {
	*io.SectionReader
	spool *spool
	once  sync.Once
}

// Close lets the spool go.
func (r *spoolReader) Close() error {
	r.once.Do(func() {
		r.spool.mu.Lock()
		defer r.spool.mu.Unlock()
		r.spool.readers--
		r.spool.close()
	})
	return nil
}
