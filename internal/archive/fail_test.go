package archive

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
)

// A disk on which the server's quota is used up is full.
func TestDiskQuota(t *testing.T) {
	err := internal("no room for the upload", &fs.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT})
	if belljar.CodeOf(err) != belljar.CodeDiskFull {
		t.Error(err)
	}
}
