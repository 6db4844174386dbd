package stream

import (
	"context"
	"io"
)

// WithContext is r, which ends with ctx, between two reads.
func WithContext(ctx context.Context, r io.Reader) io.Reader { return &interrupted{ctx, r} }

// interrupted is a reader that ends with a context, between two reads.
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
