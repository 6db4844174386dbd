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

// As returns the service as one caller sees it.
func (s *Service) As(caller belljar.Caller) belljar.Service { return view{s, caller} }

// Runs returns the caller's runs.
func (v view) Runs() belljar.Runs { return runs{v} }

// Artifacts returns the artifacts of the caller's runs.
func (v view) Artifacts() belljar.Artifacts { return artifacts{v} }

// Sessions returns the caller's sessions.
func (v view) Sessions() belljar.Sessions { return sessions{v} }

// Secrets returns the caller's stored secrets.
func (v view) Secrets() belljar.Secrets { return secrets{v} }

// Files returns the workspaces of the caller's sessions.
func (v view) Files() belljar.Files { return v.service.files.As(v.caller) }

// Terminals returns the terminals in the caller's sessions.
func (v view) Terminals() belljar.Terminals { return v.service.terminals.As(v.caller) }

// Ports returns the ports of the caller's sessions.
func (v view) Ports() belljar.Ports { return v.service.ports.As(v.caller) }

// Contexts returns the contexts of the caller's sessions.
func (v view) Contexts() belljar.Contexts { return v.service.kernels.As(v.caller) }

// Snapshots returns the caller's saved workspaces.
func (v view) Snapshots() belljar.Snapshots {
	return snapshots{v.service.snapshots.As(v.caller), v}
}

// Volumes returns the caller's workspaces on disk.
func (v view) Volumes() belljar.Volumes { return volumes{v.service.volumes.As(v.caller), v} }

// Templates returns the caller's templates.
func (v view) Templates() belljar.Templates { return templates{v.service.templates.As(v.caller), v} }

// Images returns the root file systems of sandboxes.
func (v view) Images() belljar.Images { return v.service.images.As(v.caller) }

// Usage returns the usage of the caller's running sandboxes.
func (v view) Usage() belljar.Usages { return usages{v} }

// Node describes the server and the caller's permissions.
func (v view) Node() belljar.Node { return node{v} }

// Admin returns the part of the service for operators.
func (v view) Admin() belljar.Admin { return admin{v} }
