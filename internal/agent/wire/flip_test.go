package wire_test

import (
	"io"
	"sync/atomic"
)

// bitFlipper damages the first write after flip is set.
type bitFlipper struct {
	io.ReadWriteCloser
	flip atomic.Bool
}

func (f *bitFlipper) Write(p []byte) (int, error) {
	if f.flip.Swap(false) {
		p = append([]byte(nil), p...)
		p[len(p)/2] ^= 0x10
	}
	return f.ReadWriteCloser.Write(p)
}
