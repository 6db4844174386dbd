//go:build linux

package file

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
	"time"
)

// hugeFolder has a million files, and counts the reads of their names.
type hugeFolder struct {
	fs.ReadDirFile
	file  fs.DirEntry
	reads int
}

func (h *hugeFolder) ReadDir(n int) (list []fs.DirEntry, err error) {
	if h.reads++; h.reads > 1_000_000/n {
		return nil, io.EOF
	}
	for i := range n {
		list = append(list, numbered{h.file, h.reads*n + i})
	}
	return list, nil
}

// numbered is a file whose name is a number.
type numbered struct {
	fs.DirEntry
	n int
}

func (f numbered) Name() string { return fmt.Sprintf("%08d", f.n) }

// After its limit, a walk reads a folder no further than to know that it has an entry more. Below it, the walk looks for the first names.
func TestFolderAfterTheLimit(t *testing.T) {
	files, err := fs.ReadDir(fstest.MapFS{"file": nil}, ".")
	if err != nil {
		t.Fatal(err)
	}
	for left, want := range map[int]int{0: 1, 1: 1_000_000/walkChunk + 1} {
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			huge := &hugeFolder{file: files[0]}
			w := &walker{left: left, until: time.Now().Add(time.Hour)}
			if names, more, err := w.first(huge, false); err != nil || !more || len(names) != left+hiddenNames || huge.reads != want {
				t.Errorf("%d names, more %v, %v, after %d reads, want %d", len(names), more, err, huge.reads, want)
			}
		})
	}
}

// changingFolder is read once. A program removes a file in it meanwhile, and makes it again.
type changingFolder struct {
	fs.ReadDirFile
	left []fs.DirEntry
}

func (c *changingFolder) ReadDir(int) (list []fs.DirEntry, err error) {
	list, c.left = c.left, nil
	return list, nil
}

// A name comes once, although a folder that changes may have it twice while it is read.
func TestNameTwice(t *testing.T) {
	files, err := fs.ReadDir(fstest.MapFS{"folder/file": nil, "x": nil}, ".")
	if err != nil {
		t.Fatal(err)
	}
	w := &walker{left: 10}
	names, more, err := w.first(&changingFolder{left: append(files, numbered{files[1], 1}, files[0])}, false)
	if want := []string{"00000001", "folder", "x"}; !slices.Equal(names, want) || more || err != nil {
		t.Errorf("%q, %v, %v", names, more, err)
	}
}
