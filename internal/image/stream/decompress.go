// Package stream has the stages between a layer's source and the disk: read ahead, decompress, limit.
package stream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/belljar/belljar/internal/image/fault"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// The compressions.
const (
	packedGzip = "gzip"
	packedZstd = "zstd"
)

// How far back a zstd stream may refer, in bytes: memory for each layer that is being unpacked. Builders use up to 32 MiB,
// like zstd except at its highest levels. Streams that refer further back are unpacked a few at a time, from files.
const (
	mostWindow   = 128 << 20
	usualWindow  = 32 << 20
	LargeWindows = 2
)

// InvalidError means that the compressed data is faulty, not its source.
type InvalidError struct {
	Kind string
	Err  error
}

func (e *InvalidError) Error() string { return fmt.Sprintf("no valid %s: %v", e.Kind, e.Err) }

func (e *InvalidError) Unwrap() error { return e.Err }

// origin is a decompressor's source, and keeps its error.
type origin struct {
	r   io.Reader
	err error
}

func (o *origin) Read(p []byte) (int, error) {
	n, err := o.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		o.err = err
	}
	return n, err
}

// Decompressor reads a stream, decompressed.
type Decompressor struct {
	Kind string // packedGzip, packedZstd; "" if the stream is not compressed
	from *origin
	r    io.Reader
	end  func()
}

// Compression returns the compression of a stream that begins with head; "" if it is not compressed.
func Compression(head []byte) (string, error) {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return packedGzip, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) > 3 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18}):
		return packedZstd, nil
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return "", fault.Invalid("compression", "it is compressed with xz; gzip and zstd are read")
	case bytes.HasPrefix(head, []byte("BZh")):
		return "", fault.Invalid("compression", "it is compressed with bzip2; gzip and zstd are read")
	}
	return "", nil
}

// Decompress detects gzip and zstd from r's first bytes, whatever its declared type, and decompresses them. large limits how
// many streams with much memory are read at the same time; others wait for their turn, or for the end of ctx.
// keep writes such a stream to a file first, and opens that, so that a slow source delays no other stream.
func Decompress(ctx context.Context, r io.Reader, large chan struct{}, keep func(io.Reader) (io.ReadCloser, error)) (*Decompressor, error) {
	u := &Decompressor{from: &origin{r: r}, end: func() {}}
	b := bufio.NewReaderSize(u.from, 64<<10)
	head, err := b.Peek(zstd.HeaderMaxSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if u.Kind, err = Compression(head); err != nil {
		return nil, err
	}
	switch u.Kind {
	case packedGzip:
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, u.fault(err)
		}
		u.r = z
	case packedZstd:
		from, most, leave := io.Reader(b), uint64(usualWindow), func() {}
		if farBack(head) {
			f, err := keep(b)
			if err != nil {
				return nil, err
			}
			select {
			case large <- struct{}{}:
				u.from = &origin{r: f}
				from, most, leave = u.from, mostWindow, func() { <-large; f.Close() }
			case <-ctx.Done():
				f.Close()
				return nil, ctx.Err()
			}
		}
		z, err := zstd.NewReader(from, zstd.WithDecoderMaxWindow(most), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			leave()
			return nil, u.fault(err)
		}
		u.r, u.end = z, sync.OnceFunc(func() { z.Close(); leave() })
	default:
		u.r = b
	}
	return u, nil
}

// farBack reports whether a zstd stream refers further back than usual, or may.
func farBack(head []byte) bool {
	var h zstd.Header
	switch err := h.Decode(head); {
	case err != nil || h.Skippable: // the real frame comes later
		return true
	case h.SingleSegment:
		return h.FrameContentSize > usualWindow
	}
	return h.WindowSize > usualWindow
}

func (u *Decompressor) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = u.fault(err)
	}
	return n, err
}

// fault distinguishes faulty data from a failed source.
func (u *Decompressor) fault(err error) error {
	switch {
	case u.from.err != nil:
		return u.from.err
	case u.Kind == "":
		return err
	}
	return &InvalidError{u.Kind, err}
}

func (u *Decompressor) Close() error {
	u.end()
	return nil
}

// ErrTooLong means that a stream is longer than any allowed content.
var ErrTooLong = errors.New("the stream has no end")

// Limit returns a reader that fails after that many bytes, while an [io.LimitedReader] would only end.
func Limit(r io.Reader, bytes int64) io.Reader { return &bounded{r: r, left: bytes} }

type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooLong
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
