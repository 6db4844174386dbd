package runtime

import (
	"errors"
	"fmt"
	"slices"

	"github.com/belljar/belljar"
)

// Check refuses requests that a runtime with these capabilities does not support, for runtimes whose sandboxes have no network. It
// makes nothing.
func (s Spec) Check(caps Capabilities) error {
	switch {
	case !belljar.ValidID(s.ID):
		return fmt.Errorf("%q is not a sandbox id", s.ID)
	case s.Network.Mode != "" && s.Network.Mode != NetworkNone:
		return &StepError{Step: "network", Err: fmt.Errorf("network mode %q is not available", s.Network.Mode)}
	case s.Workspace.Medium == MediumDisk && !caps.Disk:
		return &StepError{Step: "mount", Err: errors.New("a workspace on disk is not available"), Hint: caps.NoDisk.Hint}
	case s.Workspace.Medium == MediumDisk && s.Workspace.Image == "":
		return &StepError{Step: "mount", Err: errors.New("a workspace on disk needs an image")}
	case s.Workspace.Bytes <= 0 || s.Workspace.Inodes <= 0:
		return &StepError{Step: "mount", Err: errors.New("a workspace needs a size and a number of inodes")}
	case s.Workspace.Below.Dir != "" && !caps.Overlay:
		return &StepError{Step: "overlay", Err: errors.ErrUnsupported}
	case !s.Workspace.holds(s.Workspace.Below):
		return &StepError{Step: "overlay", Err: fmt.Errorf("the files take up more than half of the workspace: %w", errors.ErrUnsupported)}
	case len(s.Root.Layers) > 0 && !caps.Layers:
		return &StepError{Step: "mount", Err: errors.New("layers are not available")}
	}
	if !caps.Available {
		why := caps.Reasons[0]
		return &StepError{Step: why.Step, Err: errors.New(why.Detail), Hint: why.Hint}
	}
	for _, name := range s.Require {
		if p := caps.Protection(name); !p.Enforced {
			return &StepError{Step: name, Err: fmt.Errorf("%s cannot be enforced here", name), Hint: p.Hint}
		}
	}
	return nil
}

// holds reports whether a workspace has room for files below it: each file that a program changes is copied, and removed ones still
// count.
func (w Workspace) holds(b Below) bool { return b.Bytes <= w.Bytes/2 && b.Files <= w.Inodes/2 }

// ParkMB is the memory of a sandbox with a parked interpreter, in MiB.
const ParkMB = 128

// Blank is [Claimer.Blank] for runtimes that can change memory and processor time from outside, and settle the numbers of processes
// and files at birth. Until it is claimed, a sandbox has the least memory that a caller can request, and one processor, which most
// request. With a parked interpreter it has at most ParkMB.
func (s Spec) Blank() Spec {
	const usualCores = 1
	l, leastMB := s.Limits, 8
	if s.Park != nil {
		leastMB = ParkMB
	}
	s.ID, s.Lease, s.Root.Env = "", 0, nil
	s.Limits = belljar.Limits{
		CPU: usualCores, MemoryMB: leastMB, Pids: l.Pids, NProc: min(l.Pids, l.NProc), TmpMB: l.TmpMB, Inodes: l.Inodes,
	}
	s.Require = slices.Compact(slices.Sorted(slices.Values(s.Require)))
	return s
}
