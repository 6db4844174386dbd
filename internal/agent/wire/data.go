package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// headSize is the size of a frame's kind and length.
const headSize = 5

// ErrOther means that a frame other than Data and EOF is next. [Reader.Read] returns it.
var ErrOther = errors.New("another kind of frame")

// Await waits for Data. It returns how many bytes of the Data frame are left for [Reader.Data], and io.EOF for an EOF frame. It
// takes no more memory than the Reader has, and may be called again after an error of a deadline.
func (r *Reader) Await() (int, error) {
	for r.left == 0 {
		head, err := r.r.Peek(headSize)
		if err != nil {
			if len(head) > 0 {
				err = noEOF(err)
			} else if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the end of the stream is not that of the data
			}
			return 0, err
		}
		kind, size := Kind(head[0]), binary.BigEndian.Uint32(head[1:])
		if most, ok := bound(kind); !ok || size > most {
			return 0, fmt.Errorf("%w: kind %d of %d bytes", ErrFrame, kind, size)
		}
		if kind != KindData && kind != KindEOF {
			return 0, ErrOther
		}
		if _, err := r.r.Discard(headSize); err != nil {
			return 0, err
		}
		r.pace()
		if kind == KindEOF {
			return 0, io.EOF
		}
		r.left = int(size)
	}
	return r.left, nil
}

// Data reads bytes of Data frames into p, at most those of one frame, and all of them if p is large enough. Its errors are those of
// Await.
func (r *Reader) Data(p []byte) (int, error) {
	left, err := r.Await()
	if err != nil || len(p) == 0 {
		return 0, err
	}
	p = p[:min(left, len(p))]
	n := 0
	for n < len(p) {
		// The sender writes a frame in one piece, so the rest of it is near.
		m, err := r.r.Read(p[n:])
		n += m
		r.left -= m
		if err != nil {
			if n > 0 {
				return n, nil // the next call returns the error
			}
			return 0, noEOF(err)
		}
	}
	return n, nil
}
