// Package room stops a transfer to the disk while the disk still has room for others: a small archive may unpack to gigabytes.
package room

import "io"

// Every is how many bytes are written between two checks of the disk.
const Every = 4 << 20

// Watch counts bytes on their way to the disk.
type Watch struct {
	Check func() error // returns an error if the disk has no room; nil is no check
	left  int64        // bytes until the next check
}

// Add counts more bytes. It checks the disk at first, and then again and again.
func (w *Watch) Add(bytes int) (err error) {
	if w.left <= 0 && w.Check != nil {
		if err = w.Check(); err == nil {
			w.left = Every
		}
	}
	w.left -= int64(bytes)
	return err
}

type watched struct {
	io.Reader
	Watch
}

// Reader returns a reader of from that fails with the error of check.
func Reader(from io.Reader, check func() error) io.Reader { return &watched{from, Watch{Check: check}} }

func (w *watched) Read(b []byte) (int, error) {
	if err := w.Add(0); err != nil {
		return 0, err
	}
	n, err := w.Reader.Read(b)
	w.left -= int64(n)
	return n, err
}
