//go:build linux

package file

import (
	"archive/tar"
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/agent/guest/identity"
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

// A file that shrinks after its header is written cannot be packed, and the host reports that as a change, not as a failure of the agent.
func TestPackShrunk(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	own := identity.Current()
	w := New(filepath.Dir(name), root, own, &sync.Pool{New: func() any { b := make([]byte, 4<<10); return &b }}, func() {})
	f := &fileOp{w: w, name: ".", user: own.ID}
	p := &packer{f: f, w: tar.NewWriter(writes(func() { err = os.Truncate(name, 5<<10) }))}
	var changed *wire.Error
	if got := p.found(wire.FileInfo{Path: "file", Type: "file"}, root, "file"); !errors.As(got, &changed) || changed.Code != wire.CodeChanged || changed.Path != "file" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// writes is a writer that calls a function.
type writes func()

func (w writes) Write(b []byte) (int, error) {
	w()
	return len(b), nil
}

func TestNanoseconds(t *testing.T) {
	for at, want := range map[time.Time]int64{
		time.Unix(0, 1): 1, time.Unix(-1, 1): -999_999_999, time.Unix(9_223_372_035, 5): 9_223_372_035_000_000_005,
		time.Unix(9_223_372_037, 0): math.MaxInt64, time.Unix(1<<62, 0): math.MaxInt64,
		time.Unix(-9_223_372_036, 0): -9_223_372_036_000_000_000, time.Unix(-9_223_372_037, 0): math.MinInt64, time.Unix(-62_167_219_201, 0): math.MinInt64,
	} {
		if got := nanoseconds(at); got != want {
			t.Errorf("%v: %d, want %d", at, got, want)
		}
	}
}
