//go:build linux

package file

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
)

// A file that a program swaps for a link while its folder is packed is left out, like one that is removed. The archive does not fail.
func TestPackSwapped(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var out bytes.Buffer
	p := &packer{f: &fileOp{w: &Workspace{root: root}, name: "."}, w: tar.NewWriter(&out)}
	for _, name := range []string{"link", "gone"} {
		if err := p.found(wire.FileInfo{Path: name, Type: "file"}, root, name); err != nil || out.Len() > 0 {
			t.Errorf("%s: %v, %q", name, err, out.String())
		}
	}
}
