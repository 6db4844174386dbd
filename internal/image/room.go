package image

import (
	"io"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/room"
)

// watch returns a reader that fails before the disk has less than the reserved room.
func (d *disk) watch(r io.Reader) io.Reader {
	if d.o.Free == nil || d.o.MinFree == 0 {
		return r
	}
	return room.Reader(r, d.o.room)
}

// filesKept is the reserved part of a disk's files: one in filesKept.
const filesKept = 50

// room reports whether the disk has more than the reserved room.
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

// mostBytes is the limit of a tar of an image's files, with its headers.
func (o *Options) mostBytes() int64 { return o.MaxBytes + int64(o.MaxFiles)*8192 + 1<<20 }

func noRoom(details map[string]any) error {
	return &belljar.Error{Code: belljar.CodeDiskFull, Message: "no room left for images", Hint: fault.RoomHint, Details: details}
}
