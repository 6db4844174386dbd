//go:build linux

package process

import "testing"

// Sharing memory with a process that changes its user is safe unless the kernel lets others trace it, or dumps all sharers.
func TestDumps(t *testing.T) {
	for _, c := range []struct {
		how          string
		major, minor int
		want         bool
	}{
		{"0", 5, 10, false}, {"0", 6, 18, false}, {"1", 6, 18, true}, {"2", 6, 18, false}, {"2", 5, 16, false},
		{"2", 5, 15, true}, {"2", 4, 19, true}, {"3", 6, 18, true}, {"", 6, 18, true},
	} {
		if got := dumps(c.how, c.major, c.minor); got != c.want {
			t.Errorf("dumps(%q, %d, %d) = %v", c.how, c.major, c.minor, got)
		}
	}
}
