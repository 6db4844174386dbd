package service

import "github.com/belljar/belljar"

// view is the service as one caller sees it.
type view struct {
	service *Service
	caller  belljar.Caller
}

var (
	_ belljar.Engine  = (*Service)(nil)
	_ belljar.Service = view{}
)

// As is the service as one caller sees it.
func (s *Service) As(caller belljar.Caller) belljar.Service { return view{s, caller} }

// Runs are the caller's runs.
func (v view) Runs() belljar.Runs { return runs{v} }

// Artifacts are what the caller's runs left.
func (v view) Artifacts() belljar.Artifacts { return artifacts{v} }

// Sessions are the caller's sessions.
func (v view) Sessions() belljar.Sessions { return sessions{v} }

// Secrets are those that the caller stores.
func (v view) Secrets() belljar.Secrets { return secrets{v} }

// Files are the workspaces of the caller's sessions.
func (v view) Files() belljar.Files { return v.service.files.As(v.caller) }

// Terminals are those in the caller's sessions.
func (v view) Terminals() belljar.Terminals { return v.service.terminals.As(v.caller) }

// Ports are those that programs in the caller's sessions listen on.
func (v view) Ports() belljar.Ports { return v.service.ports.As(v.caller) }

// Contexts are those of the caller's sessions.
func (v view) Contexts() belljar.Contexts { return v.service.kernels.As(v.caller) }

// Snapshots are the caller's saved workspaces.
func (v view) Snapshots() belljar.Snapshots {
	return snapshots{v.service.snapshots.As(v.caller), v}
}

// Volumes are the caller's workspaces on disk.
func (v view) Volumes() belljar.Volumes { return volumes{v.service.volumes.As(v.caller), v} }

// Templates are environments by a name.
func (v view) Templates() belljar.Templates { return templates{v.service.templates.As(v.caller), v} }

// Images are the root file systems of sandboxes.
func (v view) Images() belljar.Images { return v.service.images.As(v.caller) }

// Usage is what the caller's living sandboxes use.
func (v view) Usage() belljar.Usages { return usages{v} }

// Node is what this server can do, and what the caller may.
func (v view) Node() belljar.Node { return node{v} }

// Admin is for operators.
func (v view) Admin() belljar.Admin { return admin{v} }
