//go:build linux

package idmap

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/test/need"
)

func TestSweepKeepsHeldSlots(t *testing.T) {
	need.Root(t)
	dir := filepath.Join(t.TempDir(), "ids")
	p, err := Discover(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	held, err := p.Claim()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	left, err := p.Claim()
	if err != nil {
		t.Fatal(err)
	}
	left.Close() // like a crash: the file stays
	if err := p.Sweep(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(held.Lock.Name()) {
		t.Errorf("after the sweep: %v, %v; want only %s", entries, err, held.Lock.Name())
	}
}
