//go:build linux

package seccomp

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A jump reaches its targets at any distance, also if one is just within its range and the other just
// outside.
func TestJumpDistances(t *testing.T) {
	for gap := range 2*farthest + 10 {
		a := &assembler{returns: make(map[action]label)}
		no := a.ret(kill)
		yes := a.ret(allow)
		for range gap {
			a.load(offsetArch)
		}
		a.jump(unix.BPF_JEQ, 7, yes, no)
		a.load(offsetNumber)
		m := newMachine(t, a.program())
		if m.run(t, data{number: 7}) != allow || m.run(t, data{number: 8}) != kill {
			t.Errorf("a jump over %d instructions goes wrong", gap)
		}
	}
}
