package image

import (
	"crypto/rand"
	"os"
	"strconv"

	"github.com/belljar/belljar"
)

// The store reserves a little room on its disk. Removing an image requires a write, first of all of the index, so that a
// completely full disk could never be freed.
const (
	spareFile  = "spare"
	spareBytes = 256 << 10 // plus the size of the index
	// spareFiles is how many further files are reserved, which are empty. A removal makes a space with its lock, a lock of a layer, and an index.
	spareFiles = 4
)

// spares returns the paths of the spare files. The first has the bytes.
func (x *index) spares() []string {
	list := []string{x.in(spareFile)}
	for i := range spareFiles {
		list = append(list, x.in(spareFile+strconv.Itoa(i+1)))
	}
	return list
}

// reserve keeps the spare files while there are images. If there is no room for them, it does nothing.
func (x *index) reserve() {
	v, err := x.load()
	if err != nil || len(v.records) == 0 {
		return
	}
	all := x.spares()
	path, want, have := all[0], spareBytes+v.size, int64(0)
	for _, empty := range all[1:] {
		if f, err := os.OpenFile(empty, os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
			_ = f.Close()
		}
	}
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

// relieved calls do, which frees room. If the disk is full, it removes the spare files and calls do again.
func (x *index) relieved(do func() error) error {
	err := do()
	if belljar.CodeOf(err) == belljar.CodeDiskFull {
		freed := false
		for _, path := range x.spares() {
			freed = os.Remove(path) == nil || freed
		}
		if freed {
			err = do()
		}
	}
	x.reserve()
	return err
}
