//go:build linux

package forkexec

// Store makes the child write the result of the call just appended to at, in its own memory, for a later call whose
// structure names a descriptor. It does nothing to the parent's at.
func (p *Program) Store(at *int32) {
	p.ops[len(p.ops)-1].store = at
	p.keep = append(p.keep, at)
}
