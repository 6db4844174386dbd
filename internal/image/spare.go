package image

import (
	"crypto/rand"
	"os"

	"github.com/belljar/belljar"
)

// The store reserves a little room on its disk. Removing an image requires a write, first of all of the index, so that a
// completely full disk could never be freed.
const (
	spareFile  = "spare"
	spareBytes = 256 << 10 // plus the size of the index
)

// reserve keeps the spare file while there are images. If there is no room for it, it does nothing.
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
	_, _ = rand.Read(data) // some file systems do not store zeros
	if _, err := f.Write(data); err != nil {
		_ = os.Remove(path)
	}
}

// relieved calls do, which frees room. If the disk is full, it removes the spare file and calls do again.
func (x *index) relieved(do func() error) error {
	err := do()
	if belljar.CodeOf(err) == belljar.CodeDiskFull && os.Remove(x.in(spareFile)) == nil {
		err = do()
	}
	x.reserve()
	return err
}
