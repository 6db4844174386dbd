// Package sockdir makes folders for the sockets of tests.
package sockdir

import (
	"os"
	"testing"
)

// New makes a folder that goes with the test. The path of a socket has at most 107 bytes (unix(7)), and the folder for
// temporary files may have a name that leaves too little of them.
func New(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "belljar-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what still ends may leave its socket
	return dir
}
