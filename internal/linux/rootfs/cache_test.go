//go:build linux

package rootfs

import (
	"os"
	"path/filepath"
	"testing"
)

// The host is looked at again once it has lost something that sandboxes are shown, as when a package is removed.
func TestCacheOfHost(t *testing.T) {
	shown := filepath.Join(t.TempDir(), "belljar-test")
	if err := os.Mkdir(shown, 0o755); err != nil {
		t.Fatal(err)
	}
	known := &Tree{Dir: "/", Parts: []Part{{Name: "etc/belljar-test", Kind: Bind, Source: shown[1:]}, {Name: "bin", Kind: Link, Target: "usr/bin"}}}
	cache := Cache{trees: map[cacheKey]*Tree{{}: known}}
	open := func() *Tree {
		held, err := cache.Open(t.Context(), "", "", User{})
		if err != nil {
			t.Fatal(err)
		}
		held.Close()
		return held.Tree
	}
	if open() != known {
		t.Error("the host is looked at for each sandbox")
	}
	if err := os.Remove(shown); err != nil {
		t.Fatal(err)
	}
	again := open()
	if again.Find("etc/belljar-test") != nil || again.Find("usr") == nil {
		t.Errorf("%+v", again.Parts)
	}
	if open() != again {
		t.Error("the host is looked at for each sandbox, after it has changed")
	}
}
