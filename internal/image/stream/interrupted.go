package stream

import (
	"context"
	"io"
)

// WithContext returns a reader that fails between two reads once ctx ends.
func WithContext(ctx context.Context, r io.Reader) io.Reader { return &interrupted{ctx, r} }

// interrupted is a reader that fails between two reads once its context ends.
type interrupted struct {
	ctx context.Context
	r   io.Reader
}

func (i *interrupted) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(p)
}
