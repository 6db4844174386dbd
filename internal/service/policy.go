package service

import "github.com/belljar/belljar/internal/service/admission"

// Policy is what the operator decides for all users: see [admission.Policy].
type Policy = admission.Policy

// Admission is by what sandboxes are admitted to the node's memory: see [admission.Mode].
type Admission = admission.Mode

// DefaultPolicy is the policy of a server without settings.
func DefaultPolicy() Policy { return admission.DefaultPolicy() }

// Presets are those that an operator can switch on.
func Presets() []string { return admission.Presets() }

// AllProtections is what a server demands of every sandbox: it refuses to run where one of them cannot be enforced.
func AllProtections() []string { return admission.AllProtections() }

// CoreProtections is what the command line demands. Without the others it runs, and the run carries a warning.
func CoreProtections() []string { return admission.CoreProtections() }
