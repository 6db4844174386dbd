//go:build linux

package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// assembler writes a program from its end to its beginning. Jumps go forward only, so the distance of every target is known when
// the jump is written.
type assembler struct {
	reversed []unix.SockFilter
	returns  map[action]label // the nearest return of each action
}

// label is a position in the program: the number of instructions from it to the end.
type label int

// The offsets of struct seccomp_data.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

const farthest = 255 // of a conditional jump

func (a *assembler) emit(code uint16, jt, jf uint8, k uint32) label {
	a.reversed = append(a.reversed, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
	return label(len(a.reversed))
}

// distance is how many instructions a jump written now must skip to reach l.
func (a *assembler) distance(l label) int { return len(a.reversed) - int(l) }

// ret returns a label that ends the program with act. It reuses one that a conditional jump can reach.
func (a *assembler) ret(act action) label {
	if l, ok := a.returns[act]; ok && a.distance(l) < farthest/2 {
		return l
	}
	l := a.emit(unix.BPF_RET|unix.BPF_K, 0, 0, uint32(act))
	a.returns[act] = l
	return l
}

// jump compares the accumulator with k and goes to yes or no.
func (a *assembler) jump(comparison uint16, k uint32, yes, no label) label {
	for {
		// A target out of reach gets an intermediate jump, which may push the other target out of reach.
		switch {
		case a.distance(yes) > farthest:
			yes = a.emit(unix.BPF_JMP|unix.BPF_JA, 0, 0, uint32(a.distance(yes)))
		case a.distance(no) > farthest:
			no = a.emit(unix.BPF_JMP|unix.BPF_JA, 0, 0, uint32(a.distance(no)))
		default:
			return a.emit(unix.BPF_JMP|unix.BPF_K|comparison, uint8(a.distance(yes)), uint8(a.distance(no)), k)
		}
	}
}

func (a *assembler) load(offset uint32) label {
	return a.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset)
}

// test loads the word at offset, compares it and goes to yes or no.
func (a *assembler) test(offset uint32, comparison uint16, k uint32, yes, no label) label {
	a.jump(comparison, k, yes, no)
	return a.load(offset)
}

// testMasked is test for equality after a bitwise and.
func (a *assembler) testMasked(offset, mask, k uint32, yes, no label) label {
	switch {
	case k&^mask != 0:
		return no
	case mask == 0:
		return yes
	}
	a.jump(unix.BPF_JEQ, k, yes, no)
	if mask != ^uint32(0) {
		a.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, mask)
	}
	return a.load(offset)
}

// program returns the instructions in the order of execution.
func (a *assembler) program() Program {
	slices.Reverse(a.reversed)
	return a.reversed
}
