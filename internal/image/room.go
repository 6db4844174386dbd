package image

import (
	"io"

	"github.com/belljar/belljar"
)

// watched is a reader of what goes to the disk. It ends where that would take the room of others: what three megabytes of
// a registry unpack to may be gigabytes.
type watched struct {
	r    io.Reader
	o    *Options
	left int64 // bytes until the next look
}

// lookEvery is how many bytes go to the disk between two looks at its room.
const lookEvery = 4 << 20

func (s *Store) watch(r io.Reader) io.Reader {
	if s.o.Free == nil || s.o.MinFree == 0 {
		return r
	}
	return &watched{r: r, o: &s.o}
}

func (w *watched) Read(p []byte) (int, error) {
	if w.left <= 0 {
		free, err := w.o.Free()
		if err != nil {
			return 0, failed("find out how much room there is", err)
		}
		if free < w.o.MinFree {
			return 0, &belljar.Error{
				Code: belljar.CodeDiskFull, Message: "no room left for images", Hint: roomHint,
				Details: map[string]any{"free_bytes": free, "minimum_bytes": w.o.MinFree},
			}
		}
		w.left = lookEvery
	}
	n, err := w.r.Read(p)
	w.left -= int64(n)
	return n, err
}
