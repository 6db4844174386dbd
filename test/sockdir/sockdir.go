// Package sockdir makes folders for the sockets of tests.
package sockdir

import (
	"os"
	"testing"
)

// New makes a folder that is removed with the test. The path of a socket has at most 107 bytes (unix(7)), and the name
// of the folder for temporary files may be too long for that.
func New(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "belljar-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a process that is still ending may leave its socket
	return dir
}
