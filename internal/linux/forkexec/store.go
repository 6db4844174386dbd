//go:build linux

package forkexec

import "unsafe"

// Store makes the child write the result of the preceding call to at, in its own memory, for a later call whose
// structure contains a descriptor. It does not change the parent's at. It panics if at does not come from [Alloc]
// or [Slice]: the child has no other memory.
func (p *Program) Store(at *int32) {
	if !p.arena.holds(unsafe.Pointer(at)) {
		panic("forkexec: Store to what the child does not have")
	}
	p.ops[len(p.ops)-1].store = at
}
