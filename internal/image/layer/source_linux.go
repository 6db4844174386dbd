package layer

import (
	"context"
	"fmt"
	"io"
)

// source reads the archive: limited, stopped by its context, and with its own errors kept apart from those of tar.
type source struct {
	ctx   context.Context
	r     io.Reader
	left  int64
	limit int64
	err   error
}

func (s *source) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if err := s.ctx.Err(); err != nil {
		s.err = err
		return 0, err
	}
	n, err := s.r.Read(p)
	if s.left -= int64(n); s.left < 0 {
		s.err = tooLong(s.limit)
		return 0, s.err
	}
	if err != nil && err != io.EOF {
		s.err = fmt.Errorf("read layer: %w", err)
		return n, s.err
	}
	return n, err
}

// first returns the error of the source, if there is one, instead of tar's.
func (s *source) first(err error) error {
	switch {
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case s.err != nil:
		return s.err
	}
	return err
}
