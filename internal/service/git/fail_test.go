package git

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/placement"
)

// A hard limit of this process that is below git's is not the fault of the image.
func TestHardLimit(t *testing.T) {
	refused := &wire.Error{Code: wire.CodeExecFailed, Step: wire.StepRlimits, Errno: 1}
	err := explain(refused, Order{Placement: &placement.Placement{}}, nil, 0)
	if belljar.CodeOf(err) != belljar.CodePolicyDenied || !strings.Contains(belljar.HintOf(err), "ulimit -Hn") {
		t.Errorf("%v, hint %q", err, belljar.HintOf(err))
	}
}

// A disk on which the server's quota is used up is full.
func TestDiskQuota(t *testing.T) {
	err := explain(&fs.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}, Order{Placement: &placement.Placement{}}, nil, 0)
	if belljar.CodeOf(err) != belljar.CodeDiskFull {
		t.Error(err)
	}
}
