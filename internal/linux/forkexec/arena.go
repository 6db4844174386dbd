//go:build linux

package forkexec

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// blockSize is the address space of a block: only written pages take memory. A sandbox's program uses a third of it.
	blockSize = 256 << 10
	// stackSize is more than any chain of nosplit functions needs: the linker limits those to less than 1 KiB.
	stackSize = 8 << 10
	wordSize  = int(unsafe.Sizeof(uintptr(0)))
)

// arena is memory outside Go's heap that the child can also access. The first block begins with the child's stack. Values in it must
// not point into Go's heap: the child cannot access that, and the garbage collector does not see such pointers.
type arena struct {
	blocks [][]byte
	used   int // of the last block
	empty  mark
}

func newArena() *arena {
	a := &arena{}
	a.grow(blockSize)
	a.used = stackSize
	a.empty = a.mark()
	return a
}

// grow adds a block. It panics when the kernel has no memory, like Go's own allocation.
func (a *arena) grow(size int) {
	block, err := unix.Mmap(-1, 0, (size+blockSize-1)/blockSize*blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(fmt.Sprintf("forkexec: memory for a child: %v", err))
	}
	a.blocks, a.used = append(a.blocks, block), 0
}

// stack returns the lower end of the child's stack.
func (a *arena) stack() *byte { return &a.blocks[0][0] }

// bytes returns n bytes with arbitrary content.
func (a *arena) bytes(n, align int) []byte {
	at := (a.used + align - 1) &^ (align - 1)
	if last := a.blocks[len(a.blocks)-1]; at+n > len(last) {
		a.grow(n)
		at = 0
	}
	a.used = at + n
	return a.blocks[len(a.blocks)-1][at:a.used:a.used]
}

// holds reports whether p points to memory from the arena.
func (a *arena) holds(p unsafe.Pointer) bool {
	for _, block := range a.blocks {
		if offset := uintptr(p) - uintptr(unsafe.Pointer(&block[0])); offset < uintptr(len(block)) {
			return true
		}
	}
	return false
}

// mark is a point to which an arena shrinks again.
type mark struct{ blocks, used int }

func (a *arena) mark() mark { return mark{len(a.blocks), a.used} }

// shrink frees all memory that was taken since the mark.
func (a *arena) shrink(m mark) {
	for _, block := range a.blocks[m.blocks:] {
		unix.Munmap(block) // cannot fail for memory of ours
	}
	clear(a.blocks[m.blocks:])
	a.blocks, a.used = a.blocks[:m.blocks], m.used
}

// room returns memory for n values of type T, with arbitrary content.
func room[T any](a *arena, n int) []T {
	var v T
	if n == 0 || unsafe.Sizeof(v) == 0 {
		return nil
	}
	raw := a.bytes(n*int(unsafe.Sizeof(v)), max(wordSize, int(unsafe.Alignof(v))))
	return unsafe.Slice((*T)(unsafe.Pointer(&raw[0])), n)
}

// take returns memory for n zero values of type T.
func take[T any](a *arena, n int) []T {
	list := room[T](a, n)
	clear(list)
	return list
}
