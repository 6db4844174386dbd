package image

import (
	"io"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
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

func (d *disk) watch(r io.Reader) io.Reader {
	if d.o.Free == nil || d.o.MinFree == 0 {
		return r
	}
	return &watched{r: r, o: d.o}
}

func (w *watched) Read(p []byte) (int, error) {
	if w.left <= 0 {
		if err := w.o.room(); err != nil {
			return 0, err
		}
		w.left = lookEvery
	}
	n, err := w.r.Read(p)
	w.left -= int64(n)
	return n, err
}

// filesKept is which part of a disk's files is left to others.
const filesKept = 50

// room reports whether there is more room on the disk than others need.
func (o *Options) room() error {
	free, err := o.Free()
	if err != nil {
		return fault.Wrap("find out how much room there is", err)
	}
	if free < o.MinFree {
		return noRoom(map[string]any{"free_bytes": free, "minimum_bytes": o.MinFree})
	}
	if o.FreeFiles == nil {
		return nil
	}
	free, all, err := o.FreeFiles()
	if err != nil {
		return fault.Wrap("find out how much room there is", err)
	}
	if free < all/filesKept {
		return noRoom(map[string]any{"free_files": free, "minimum_files": all / filesKept})
	}
	return nil
}

func noRoom(details map[string]any) error {
	return &belljar.Error{Code: belljar.CodeDiskFull, Message: "no room left for images", Hint: fault.RoomHint, Details: details}
}
