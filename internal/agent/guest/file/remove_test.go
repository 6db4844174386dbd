//go:build linux

package file

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A removal that is out of time reports that. The next request removes the rest.
func TestRemoveOutOfTime(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(filepath.Join(tree, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 2*removeBatch + 1 {
		for _, in := range []string{tree, filepath.Join(tree, "sub")} {
			if err := os.WriteFile(filepath.Join(in, fmt.Sprint(i)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	parent, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	late := &remover{until: time.Now().Add(-time.Second)}
	if err := late.remove(int(parent.Fd()), "tree", 0); err != unix.ETIMEDOUT {
		t.Errorf("out of time: %v", err)
	}
	if err := (&remover{until: time.Now().Add(time.Hour)}).remove(int(parent.Fd()), "tree", 0); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(tree); !os.IsNotExist(err) {
		t.Error(err)
	}
}
