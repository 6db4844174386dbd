package archive

import (
	"errors"
	"io"
	"os"
)

// spool is an unnamed temporary file that holds the raw upload.
type spool struct {
	file *os.File
	name string // "" after the name was removed
	size int64
}

func newSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, "belljar-upload-")
	if err != nil {
		return nil, internal("no room for the upload", err)
	}
	s := &spool{file: f, name: f.Name()}
	if os.Remove(s.name) == nil { // systems other than Unix keep the name until close
		s.name = ""
	}
	return s, nil
}

// errFull means that a part is larger than its limit.
var errFull = errors.New("too much")

// writeError is a write error of the spool, as opposed to a read error of the upload.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

func (e *writeError) Unwrap() error { return e.err }

// take appends the bytes of r, at most room, and returns the section that holds them. It calls check before every read.
func (s *spool) take(r io.Reader, room int64, check func() error) (*io.SectionReader, error) {
	start := s.size
	buf := make([]byte, 64<<10)
	for {
		if err := check(); err != nil {
			return nil, err
		}
		n, err := r.Read(buf)
		if n > 0 {
			if s.size-start+int64(n) > room {
				return nil, errFull
			}
			if _, err := s.file.Write(buf[:n]); err != nil {
				return nil, &writeError{err}
			}
			s.size += int64(n)
		}
		if err == io.EOF {
			return io.NewSectionReader(s.file, start, s.size-start), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *spool) close() error {
	err := s.file.Close()
	if s.name != "" {
		err = errors.Join(err, os.Remove(s.name))
	}
	return err
}
