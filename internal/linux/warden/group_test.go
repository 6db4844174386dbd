//go:build linux && !race

package warden

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A look allocates no memory, because a garbage collection would delay the next. The race detector itself
// allocates.
func TestLookLeavesNoGarbage(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"memory.usage_in_bytes": "67108864\n", "memory.limit_in_bytes": "73400320\n",
		"memory.stat": "cache 4096\ntotal_inactive_file 1048576\ntotal_active_file 1048576\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := unix.Open(dir, unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(Group{Dir: dir, Version: 1, Bytes: 64 * mib})
	defer w.end()
	w.proc, w.mounts = root, [][]byte{append([]byte(dir), 0)}
	var held int64
	buf := make([]byte, 8<<10)
	allocs := testing.AllocsPerRun(10, func() {
		w.max = 1 // so that the look sets the limit
		if _, held, err = w.look(buf); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("a look allocates %v times", allocs)
	}
	if held > 62*mib || w.max < 70*mib {
		t.Errorf("it finds %d bytes held and sets a limit of %d", held, w.max)
	}
}
