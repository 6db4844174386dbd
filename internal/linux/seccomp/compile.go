//go:build linux

package seccomp

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// maxProgram is the maximum number of instructions of a filter.
const maxProgram = 4096

// span is a range of numbers, up to the next span, that share their rules.
type span struct {
	from  uint32
	rules []rule
}

// compile turns a policy into a program: a check of the architecture, a binary search over the numbers, and the
// comparisons of the few calls that have conditions.
//
// The search reads only the number: at installation, the kernel (5.11 and newer) determines which numbers are always allowed, and
// does not run the filter for them.
func compile(p policy) (Program, error) {
	for number, rules := range p.rules {
		if err := check(rules); err != nil {
			return nil, fmt.Errorf("seccomp: rules of system call %d: %w", number, err)
		}
	}
	a := &assembler{returns: make(map[action]label), reversed: make([]unix.SockFilter, 0, 1024)}
	tree := a.tree(spans(p))
	if a.distance(tree) != 0 {
		a.emit(unix.BPF_JMP|unix.BPF_JA, 0, 0, uint32(a.distance(tree)))
	}
	native := a.load(offsetNumber)
	foreign := a.ret(p.foreign)
	a.test(offsetArch, unix.BPF_JEQ, p.audit, native, foreign)
	out := a.program()
	if len(out) > maxProgram {
		return nil, fmt.Errorf("seccomp: filter of %d instructions, the kernel takes %d", len(out), maxProgram)
	}
	return out, nil
}

func check(rules []rule) error {
	if len(rules) == 0 || len(rules[len(rules)-1].when) != 0 {
		return errors.New("the last one has conditions")
	}
	for _, r := range rules {
		for _, c := range r.when {
			if c.arg < 0 || c.arg > 5 {
				return fmt.Errorf("there is no argument %d", c.arg)
			}
			if c.narrow && (c.value|c.mask)>>32 != 0 {
				return fmt.Errorf("argument %d has 32 bits, %#x and mask %#x do not fit", c.arg, c.value, c.mask)
			}
		}
	}
	return nil
}

// spans divides all numbers into ranges with the same rules.
func spans(p policy) []span {
	rest := []rule{{action: p.otherwise}}
	out := []span{{0, rest}}
	put := func(from uint32, rules []rule) {
		last := &out[len(out)-1]
		switch {
		case constant(last.rules) && constant(rules) && last.rules[0].action == rules[0].action:
		case last.from == from:
			last.rules = rules
		default:
			out = append(out, span{from, rules})
		}
	}
	for _, number := range slices.Sorted(maps.Keys(p.rules)) {
		put(number, p.rules[number])
		if _, next := p.rules[number+1]; !next && number != ^uint32(0) {
			put(number+1, rest)
		}
	}
	return out
}

func constant(rules []rule) bool { return len(rules[0].when) == 0 }

// tree writes the search for the accumulator's number.
func (a *assembler) tree(s []span) label {
	if len(s) == 1 {
		return a.rules(s[0].rules)
	}
	middle := len(s) / 2
	right := a.tree(s[middle:])
	left := a.tree(s[:middle])
	return a.jump(unix.BPF_JGE, s[middle].from, right, left)
}

// rules writes a list of rules; the first that matches decides.
func (a *assembler) rules(list []rule) label {
	var next label
	for _, r := range slices.Backward(list) {
		entry := a.ret(r.action)
		for _, c := range slices.Backward(r.when) {
			entry = a.condition(c, entry, next)
		}
		next = entry
	}
	return next
}

// condition writes one comparison, of 64 bits in two halves unless the argument is narrow.
func (a *assembler) condition(c condition, yes, no label) label {
	low := uint32(offsetArgs + 8*c.arg)
	high := low + 4
	lowValue, highValue := uint32(c.value), uint32(c.value>>32)
	switch c.op {
	case notEqual:
		yes, no, c.op = no, yes, equal
	case less:
		yes, no, c.op = no, yes, greaterOrEqual
	case lessOrEqual:
		yes, no, c.op = no, yes, greater
	}
	if c.op == masked {
		entry := a.testMasked(low, uint32(c.mask), lowValue, yes, no)
		if c.narrow {
			return entry
		}
		return a.testMasked(high, uint32(c.mask>>32), highValue, entry, no)
	}
	entry := a.test(low, jumps[c.op], lowValue, yes, no)
	if c.narrow {
		return entry
	}
	if c.op == equal {
		return a.test(high, unix.BPF_JEQ, highValue, entry, no)
	}
	tie := a.jump(unix.BPF_JEQ, highValue, entry, no)
	return a.test(high, unix.BPF_JGT, highValue, yes, tie)
}

// jumps are the comparison instructions of a filter.
var jumps = [...]uint16{equal: unix.BPF_JEQ, greater: unix.BPF_JGT, greaterOrEqual: unix.BPF_JGE}
