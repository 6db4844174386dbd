package image

import (
	"crypto/rand"
	"os"

	"github.com/belljar/belljar"
)

// The store keeps a little room on its disk. To remove an image something must be written, the index first of all, so that
// on a disk without any room nothing could be removed that would make some.
const (
	spareFile  = "spare"
	spareBytes = 256 << 10 // besides as much as the index has
)

// reserve keeps room while there are images. Where there is none to keep it does nothing.
func (x *index) reserve() {
	v, err := x.load()
	if err != nil || len(v.records) == 0 {
		return
	}
	path, want, have := x.in(spareFile), spareBytes+v.size, int64(0)
	if info, err := os.Lstat(path); err == nil {
		have = info.Size()
	}
	if have >= want {
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	data := make([]byte, want-have)
	_, _ = rand.Read(data) // some file systems keep no zeros
	if _, err := f.Write(data); err != nil {
		_ = os.Remove(path)
	}
}

// relieved does what makes room, and where the disk has none for that, once more with what is kept for it.
func (x *index) relieved(do func() error) error {
	err := do()
	if belljar.CodeOf(err) == belljar.CodeDiskFull && os.Remove(x.in(spareFile)) == nil {
		err = do()
	}
	x.reserve()
	return err
}
