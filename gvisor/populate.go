package main

import (
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/platform"
)

// watchedSpace is an address space that fills pages immediately, for MAP_POPULATE and mlock(2), in pieces with a look after
// each.
type watchedSpace struct {
	platform.AddressSpace
	watch *watch
}

func (s *watchedSpace) MapFile(addr hostarch.Addr, f memmap.File, fr memmap.FileRange, at hostarch.AccessType, fill bool) error {
	for size := uint64(s.watch.piece()); fill && fr.Length() > size; {
		piece := memmap.FileRange{Start: fr.Start, End: fr.Start + size}
		if err := s.AddressSpace.MapFile(addr, f, piece, at, true); err != nil {
			return err
		}
		s.watch.look()
		addr += hostarch.Addr(size)
		fr.Start = piece.End
	}
	return s.AddressSpace.MapFile(addr, f, fr, at, fill)
}

func (p watchedPlatform) NewAddressSpace() (platform.AddressSpace, error) {
	space, err := p.Platform.NewAddressSpace()
	if err != nil {
		return nil, err
	}
	return &watchedSpace{space, p.watch}, nil
}

// watchedMemory gives a platform its own address space, which the platform recognises by its type.
type watchedMemory struct{ platform.MemoryManager }

func (m *watchedMemory) AddressSpace() platform.AddressSpace {
	return unwatched(m.MemoryManager.AddressSpace())
}

func (c *watchedContext) PullFullState(space platform.AddressSpace, ac *arch.Context64) error {
	return c.Context.PullFullState(unwatched(space), ac)
}

func unwatched(space platform.AddressSpace) platform.AddressSpace {
	if s, ok := space.(*watchedSpace); ok {
		return s.AddressSpace
	}
	return space
}

// MapUnit is how much a fault maps at most. Otherwise the first fault would map shared memory as a whole, and programs could
// fill it without a further fault.
func (watchedPlatform) MapUnit() uint64 { return 2 << 20 }
