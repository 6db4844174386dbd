//go:build linux

package file

import (
	"fmt"
	"io"
	"io/fs"
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
	for range n {
		list = append(list, h.file)
	}
	return list, nil
}

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
