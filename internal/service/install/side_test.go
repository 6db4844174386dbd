package install

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
)

// A disk on which the server's quota is used up is full.
func TestDiskQuota(t *testing.T) {
	if err := noRoom("keep the packages", &fs.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}); belljar.CodeOf(err) != belljar.CodeDiskFull {
		t.Error(err)
	}
}
