package admission

import (
	"context"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

// Disks manages workspaces on disk. They are claimed and dropped with the memory of their sandboxes.
type Disks interface {
	// Size returns the size of a requested workspace, in MiB; 0 for a workspace in memory.
	Size(caller belljar.Caller, w belljar.Workspace) (mb int, err error)
	// Claim reserves a placed workspace. With mayMake it creates a missing volume.
	Claim(ctx context.Context, id string, caller belljar.Caller, w belljar.Workspace, mayMake bool) error
	Reclaim(id string, caller belljar.Caller, w belljar.Workspace)
	Drop(id string)
}

// disk decides about the workspace of a request, after its runtime was chosen.
func (r *Rules) disk(p *placement.Placement, request Request, mb int) error {
	w := request.Workspace
	if !w.OnDisk() {
		return nil
	}
	shares := w.ReadOnly && !slices.Contains(request.AllowWeak, runtime.ProtectLandlock)
	what, why := "a workspace cannot be on disk", NoDisk(p.Caps)
	if why == nil && shares && p.Caps.NoShare.Detail != "" {
		what, why = "a volume cannot be read-only", &p.Caps.NoShare
	}
	if why != nil {
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: what + " with runtime " + p.Host.Name() + ": " + why.Detail, Hint: why.Hint,
			Details: map[string]any{"field": "workspace", "runtime": p.Host.Name(), "available": true, "suggested": r.withDisk(shares)},
		}
	}
	p.SetDisk(w, mb)
	return nil
}

// withDisk returns the runtimes that support a workspace on disk, or one that sandboxes share, as far as that is known.
func (r *Rules) withDisk(shared bool) []string {
	able := []string{}
	for _, h := range r.Hosts {
		if caps, err := h.Capabilities(context.Background()); err == nil && caps.Available && caps.Disk && (!shared || caps.NoShare.Detail == "") {
			able = append(able, h.Name())
		}
	}
	return able
}

// NoDisk returns the reason why a runtime is not suitable for a workspace on disk; nil if it is.
func NoDisk(caps runtime.Capabilities) *runtime.Reason {
	if caps.Disk {
		return nil
	}
	if caps.NoDisk.Detail != "" {
		return &caps.NoDisk
	}
	return &runtime.Reason{Code: "feature_not_implemented", Step: "mount", Detail: "its sandboxes have workspaces in memory only", Hint: "name the runtime native or gvisor"}
}
