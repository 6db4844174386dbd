//go:build linux

package warden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A watch begins without the threshold that another has left: the kernel slows programs that are above it.
func TestWatchRemovesTheThreshold(t *testing.T) {
	w, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	dir := t.TempDir()
	high := filepath.Join(dir, "memory.high")
	for _, size := range []int64{8 * mib, 512 * mib} {
		if err := os.WriteFile(high, []byte("4194304\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w.Watch(Group{Dir: dir, Version: 2, Bytes: size}); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(high); err != nil || !strings.HasPrefix(string(b), "max") {
			t.Errorf("a watch over %d MiB leaves memory.high at %q (%v)", size/mib, b, err)
		}
	}
}
