//go:build linux

package seccomp

import (
	"encoding/binary"

	"golang.org/x/net/bpf"
)

// tester is the common part of testing and rapid.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// data is struct seccomp_data, without the instruction pointer, which no rule reads.
type data struct {
	audit, number uint32
	args          [6]uint64
}

// machine runs a program without the kernel.
type machine struct{ vm *bpf.VM }

func newMachine(t tester, p Program) machine {
	t.Helper()
	raw := make([]bpf.RawInstruction, len(p))
	for i, f := range p {
		raw[i] = bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K}
	}
	list, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the program has instructions that do not disassemble")
	}
	vm, err := bpf.NewVM(list)
	if err != nil {
		t.Fatalf("the program is not valid: %v", err)
	}
	return machine{vm}
}

func (m machine) run(t tester, d data) action {
	t.Helper()
	// The machine loads words in network order, the kernel in its own; writing them in network order gives the same
	// values.
	words := []uint32{d.number, d.audit, 0, 0}
	for _, a := range d.args {
		words = append(words, uint32(a), uint32(a>>32))
	}
	var packet []byte
	for _, w := range words {
		packet = binary.BigEndian.AppendUint32(packet, w)
	}
	out, err := m.vm.Run(packet)
	if err != nil {
		t.Fatal(err)
	}
	return action(out)
}

// decide evaluates a policy directly. The compiled program must agree with it.
func decide(p policy, d data) action {
	if d.audit != p.audit {
		return p.foreign
	}
	list, ok := p.rules[d.number]
	if !ok {
		return p.otherwise
	}
next:
	for _, r := range list {
		for _, c := range r.when {
			if !holds(c, d.args[c.arg]) {
				continue next
			}
		}
		return r.action
	}
	panic("no rule holds")
}

func holds(c condition, arg uint64) bool {
	if c.narrow {
		arg &= 0xffffffff
	}
	switch c.op {
	case equal:
		return arg == c.value
	case notEqual:
		return arg != c.value
	case less:
		return arg < c.value
	case lessOrEqual:
		return arg <= c.value
	case greater:
		return arg > c.value
	case greaterOrEqual:
		return arg >= c.value
	case masked:
		return arg&c.mask == c.value
	}
	panic("unknown operator")
}
