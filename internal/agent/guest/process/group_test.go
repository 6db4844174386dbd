//go:build linux

package process

import (
	"os"
	"testing"
)

// Who waits for a cgroup that is removed meanwhile does not wait for ever.
func TestRemovedGroupIsEmpty(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	groups := &Groups{Dir: dir}
	defer groups.Close()
	g, err := groups.create()
	if err != nil {
		t.Fatal(err)
	}
	g.Remove()
	if err := g.WaitEmpty(0); err != nil {
		t.Error(err)
	}
}
