package git

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/placement"
)

// A disk on which the server's quota is used up is full.
func TestDiskQuota(t *testing.T) {
	err := explain(&fs.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}, Order{Placement: &placement.Placement{}}, nil, 0)
	if belljar.CodeOf(err) != belljar.CodeDiskFull {
		t.Error(err)
	}
}
