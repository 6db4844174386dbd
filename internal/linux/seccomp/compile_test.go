//go:build linux

package seccomp

import (
	"maps"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// word draws numbers near the boundaries at which a comparison in halves can fail.
func word() *rapid.Generator[uint64] {
	return rapid.Custom(func(t *rapid.T) uint64 {
		half := rapid.OneOf(rapid.SampledFrom([]uint32{0, 1, 2, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff}), rapid.Uint32())
		return uint64(half.Draw(t, "high"))<<32 | uint64(half.Draw(t, "low"))
	})
}

func drawCondition(t *rapid.T) condition {
	c := condition{
		arg:    rapid.IntRange(0, 5).Draw(t, "arg"),
		narrow: rapid.Bool().Draw(t, "narrow"),
		op:     op(rapid.IntRange(0, int(masked)).Draw(t, "op")),
		value:  word().Draw(t, "value"),
	}
	if c.op == masked {
		c.mask = word().Draw(t, "mask")
		if rapid.Bool().Draw(t, "satisfiable") {
			c.value &= c.mask
		}
	}
	if c.narrow {
		c.value, c.mask = c.value&0xffffffff, c.mask&0xffffffff
	}
	return c
}

func drawAction(t *rapid.T) action {
	return rapid.SampledFrom([]action{allow, kill, fails(1), fails(38), fails(97)}).Draw(t, "action")
}

func drawPolicy(t *rapid.T, calls int) policy {
	p := policy{audit: auditAMD64, foreign: kill, otherwise: drawAction(t), rules: map[uint32][]rule{}}
	number := rapid.OneOf(rapid.Uint32Range(0, 40), rapid.SampledFrom([]uint32{0x40000000, 0xfffffffe, 0xffffffff}), rapid.Uint32())
	for range rapid.IntRange(0, calls).Draw(t, "calls") {
		var list []rule
		for range rapid.IntRange(0, 4).Draw(t, "rules") {
			list = append(list, rule{rapid.SliceOfN(rapid.Custom(drawCondition), 1, 3).Draw(t, "when"), drawAction(t)})
		}
		p.rules[number.Draw(t, "number")] = append(list, rule{action: drawAction(t)})
	}
	return p
}

// drawData draws a call that is likely to hit the policy's boundaries: near its numbers and values.
func drawData(t *rapid.T, p policy) data {
	d := data{audit: p.audit, number: rapid.Uint32().Draw(t, "number")}
	if rapid.IntRange(0, 9).Draw(t, "foreign") == 0 {
		d.audit = rapid.Uint32().Draw(t, "audit")
	}
	numbers := slices.Sorted(maps.Keys(p.rules))
	if len(numbers) > 0 && rapid.IntRange(0, 9).Draw(t, "known") > 0 {
		d.number = rapid.SampledFrom(numbers).Draw(t, "number") + rapid.Uint32Range(0, 2).Draw(t, "beside") - 1
	}
	for i := range d.args {
		d.args[i] = word().Draw(t, "arg")
	}
	for _, r := range p.rules[d.number] {
		for _, c := range r.when {
			switch rapid.IntRange(0, 3).Draw(t, "aim") {
			case 0:
				d.args[c.arg] = c.value + rapid.Uint64Range(0, 2).Draw(t, "beside") - 1
			case 1:
				d.args[c.arg] = c.value | word().Draw(t, "high")&^0xffffffff
			case 2:
				d.args[c.arg] = c.value | d.args[c.arg]&^c.mask
			}
		}
	}
	return d
}

func agrees(calls int) func(*rapid.T) {
	return func(t *rapid.T) {
		p := drawPolicy(t, calls)
		program, err := compile(p)
		if err != nil {
			t.Fatal(err)
		}
		m := newMachine(t, program)
		for range 20 {
			d := drawData(t, p)
			if got, want := m.run(t, d), decide(p, d); got != want {
				t.Fatalf("%+v: filter says %#x, policy %#x", d, got, want)
			}
		}
	}
}

func TestProgramAgreesWithPolicy(t *testing.T) { rapid.Check(t, agrees(12)) }

// Enough rules that jumps exceed the range of an instruction.
func TestLongProgramAgreesWithPolicy(t *testing.T) { rapid.Check(t, agrees(100)) }

func FuzzProgramAgreesWithPolicy(f *testing.F) { f.Fuzz(rapid.MakeFuzz(agrees(12))) }

func TestLongJumps(t *testing.T) {
	p := policy{audit: auditAMD64, foreign: kill, otherwise: fails(38), rules: map[uint32][]rule{}}
	for number := range uint32(200) {
		var list []rule
		for v := range uint64(8) {
			list = append(list, rule{[]condition{{arg: 1, op: equal, value: v << 31}}, fails(uint(100*v + uint64(number)%7 + 1))})
		}
		p.rules[number] = append(list, rule{action: allow})
	}
	if _, err := compile(p); err == nil {
		t.Error("a filter longer than the kernel takes was accepted")
	}
	for number := range uint32(130) {
		delete(p.rules, number+70)
	}
	program, err := compile(p)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(program, func(f unix.SockFilter) bool { return f.Code == unix.BPF_JMP|unix.BPF_JA }) {
		t.Error("the program has no long jump: this test tests nothing")
	}
	m := newMachine(t, program)
	for number := range uint32(202) {
		for v := range uint64(10) {
			d := data{audit: p.audit, number: number, args: [6]uint64{1: v << 31}}
			if got, want := m.run(t, d), decide(p, d); got != want {
				t.Fatalf("%+v: filter says %#x, policy %#x", d, got, want)
			}
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	always := rule{action: allow}
	for name, list := range map[string][]rule{
		"no rules":           {},
		"open end":           {{[]condition{{value: 1}}, allow}},
		"argument 6":         {{[]condition{{arg: 6}}, allow}, always},
		"wide value":         {{[]condition{{narrow: true, value: 1 << 32}}, allow}, always},
		"wide mask":          {{[]condition{{narrow: true, op: masked, mask: 1 << 32}}, allow}, always},
		"negative arguments": {{[]condition{{arg: -1}}, allow}, always},
	} {
		if _, err := compile(policy{rules: map[uint32][]rule{7: list}}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
