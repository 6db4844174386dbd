//go:build linux

package rack

import (
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/runtime"
)

// SingleID reports whether this user has no ids but its own for sandboxes.
func (r *Rack) SingleID() bool { return r.Jars.IDs.Mode == idmap.ModeSingle }

// Identity is the protection of a host uid range for each sandbox.
func (r *Rack) Identity() runtime.Protection {
	return runtime.Protection{
		Name: runtime.ProtectIdentity, Enforced: true,
		By: "user namespaces, a separate host uid range for each sandbox", Hint: r.Jars.IDs.Hint,
	}
}

// Limit returns how the cgroups of this host enforce the limit called name; not enforced without cgroups.
func (r *Rack) Limit(name string) runtime.Protection {
	p := runtime.Protection{Name: name}
	if r.Jars.Cgroups != nil {
		c := r.Jars.Cgroups.Capability(name)
		p.Enforced, p.By, p.Weaker, p.Hint = c.Enforced, c.By, c.Weaker, c.Hint
	}
	return p
}
