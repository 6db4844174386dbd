//go:build linux

package vm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// archive writes the "newc" cpio format, which the kernel unpacks as its first root file system.
type archive struct {
	w     *bufio.Writer
	count int
	dirs  map[string]bool
	err   error
}

const (
	modeDir  = 0o040000
	modeFile = 0o100000
	modeLink = 0o120000
)

func newArchive(w io.Writer) *archive {
	return &archive{w: bufio.NewWriter(w), dirs: map[string]bool{"": true, ".": true}}
}

// entry writes one file. size must be the number of bytes that body contains.
func (a *archive) entry(name string, mode uint32, size int64, body io.Reader) {
	if a.err != nil {
		return
	}
	name = strings.TrimPrefix(path.Clean(name), "/")
	a.parents(name)
	a.count++
	links := 1
	if mode&modeDir != 0 {
		links = 2
	}
	// ino, mode, uid, gid, nlink, mtime, filesize, device (4), namesize, check
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.count, mode, 0, 0, links, 0, size, 0, 0, 0, 0, len(name)+1, 0)
	a.text(head + name + "\x00")
	a.pad(len(head) + len(name) + 1)
	if body == nil {
		return
	}
	n, err := io.Copy(a.w, body)
	if err == nil && n != size {
		err = fmt.Errorf("%s: %d bytes, expected %d", name, n, size)
	}
	if a.err == nil {
		a.err = err
	}
	a.pad(int(size % 4))
}

// parents writes the missing folders above name.
func (a *archive) parents(name string) {
	dir := path.Dir(name)
	if a.dirs[dir] {
		return
	}
	a.dirs[dir] = true
	a.entry(dir, modeDir|0o755, 0, nil)
}

func (a *archive) folder(name string, perm uint32) {
	a.dirs[strings.TrimPrefix(path.Clean(name), "/")] = true
	a.entry(name, modeDir|perm, 0, nil)
}

func (a *archive) file(name string, perm uint32, text string) {
	a.entry(name, modeFile|perm, int64(len(text)), strings.NewReader(text))
}

func (a *archive) link(name, target string) {
	a.entry(name, modeLink|0o777, int64(len(target)), strings.NewReader(target))
}

// copy writes the host's file source, with its permissions.
func (a *archive) copy(name, source string) {
	f, err := os.Open(source)
	if err != nil {
		a.fail(err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		a.fail(err)
		return
	}
	if !info.Mode().IsRegular() {
		a.fail(fmt.Errorf("%s is no regular file", source))
		return
	}
	perm := uint32(info.Mode().Perm())
	if info.Mode()&os.ModeSetuid != 0 {
		perm |= 0o4000
	}
	a.entry(name, modeFile|perm, info.Size(), f)
}

func (a *archive) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// close ends the archive and returns the first error.
func (a *archive) close() error {
	a.dirs["."] = true
	a.entry("TRAILER!!!", 0, 0, nil)
	if a.err != nil {
		return a.err
	}
	return a.w.Flush()
}

func (a *archive) text(s string) {
	if _, err := a.w.WriteString(s); err != nil {
		a.fail(err)
	}
}

// pad pads the output to a multiple of four bytes.
func (a *archive) pad(n int) { a.text("\x00\x00\x00"[:(4-n%4)%4]) }
