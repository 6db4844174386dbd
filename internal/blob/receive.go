package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// Receive copies r to w until ctx is done, and describes the bytes.
func Receive(ctx context.Context, w io.Writer, r io.Reader) (Info, error) {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), ctxReader{ctx, r})
	if err != nil {
		return Info{}, err
	}
	return Info{Size: n, Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil))}, nil
}

// ctxReader reads until ctx is done.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (p ctxReader) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.r.Read(b)
}
