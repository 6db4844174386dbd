package git

import (
	"errors"
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

// A disk on which the server's quota is used up is full, and so is one at its watermark.
func TestDiskFull(t *testing.T) {
	for _, full := range []error{&fs.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}, &belljar.Error{Code: belljar.CodeDiskFull}} {
		err := explain(full, Order{Placement: &placement.Placement{}}, nil, 0)
		if e := (*Error)(nil); !errors.As(err, &e) || e.Err.Code != belljar.CodeDiskFull || e.Reason != belljar.ReasonCloneFailed {
			t.Error(err)
		}
	}
}
