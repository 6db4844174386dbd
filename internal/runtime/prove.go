package runtime

import (
	"context"
	"errors"
	"io/fs"

	"github.com/belljar/belljar"
)

// TestSandbox implements [Tester] for a runtime that caps reports as available. It makes a sandbox of the host's own programs:
// nothing less proves that a host allows every step.
func TestSandbox(ctx context.Context, r Runtime, caps Capabilities) (Capabilities, error) {
	limits := belljar.DefaultLimits()
	box, err := r.Create(ctx, Spec{
		ID: belljar.NewID(), Root: Root{Ref: HostRef}, Limits: limits,
		Workspace: Workspace{Bytes: int64(limits.WorkspaceMB) << 20, Inodes: int64(limits.Inodes), Medium: MediumMemory},
		Lifetime:  LifetimeCreator,
	})
	var step *StepError
	switch {
	case err == nil:
		return caps, box.Destroy(ctx)
	case ctx.Err() != nil || !errors.As(err, &step) || errors.Is(err, ErrFull):
		return caps, err // the failure shows nothing about the host
	}
	code := "host_prerequisite_missing"
	if errors.Is(step.Err, fs.ErrPermission) {
		code = "host_permission_denied"
	}
	caps.Refuse(Reason{Code: code, Step: step.Step, Detail: step.Err.Error(), Hint: step.Hint})
	return caps, nil
}
