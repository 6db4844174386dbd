package service

import "github.com/belljar/belljar/internal/service/admission"

// Policy is the operator's policy for all users: see [admission.Policy].
type Policy = admission.Policy

// Admission is the rule by which sandboxes are admitted to the node's memory: see [admission.Mode].
type Admission = admission.Mode

// DefaultPolicy is the policy of a server without settings.
func DefaultPolicy() Policy { return admission.DefaultPolicy() }

// Presets returns the presets that an operator can enable.
func Presets() []string { return admission.Presets() }

// AllProtections returns the protections that a server requires of every sandbox: it refuses a run if one of them
// cannot be enforced.
func AllProtections() []string { return admission.AllProtections() }

// CoreProtections returns the protections that the command line requires. Without the others, a run gets a warning.
func CoreProtections() []string { return admission.CoreProtections() }
