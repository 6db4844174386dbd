//go:build linux

package process

import (
	"os"
	"testing"
)

// Waiting for a cgroup ends when the cgroup is removed.
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
