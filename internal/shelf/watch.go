package shelf

import "io"

// watched reads the bytes of a layer on their way to the disk.
type watched struct {
	io.Reader
	room func() error
	left int64 // bytes until the next check
}

// LookEvery is how many bytes are read between two checks of the disk.
const LookEvery = 4 << 20

// Watch returns a reader of a layer's bytes that fails with the error of room, which it calls first and then again and again: a small archive may
// unpack to gigabytes.
func Watch(from io.Reader, room func() error) io.Reader { return &watched{Reader: from, room: room} }

func (w *watched) Read(b []byte) (int, error) {
	if w.left <= 0 {
		if err := w.room(); err != nil {
			return 0, err
		}
		w.left = LookEvery
	}
	n, err := w.Reader.Read(b)
	w.left -= int64(n)
	return n, err
}
