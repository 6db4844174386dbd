//go:build linux

package confine

import (
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

const oneLock = "7: POSIX  ADVISORY  WRITE 30639 00:1b:155753 0 EOF\n"

func TestCountLocks(t *testing.T) {
	for _, c := range []struct {
		list string
		want int
	}{
		{"", 0},
		{oneLock, 1},
		{oneLock + "8: -> POSIX  ADVISORY  WRITE 30640 00:1b:155753 0 EOF\n9: FLOCK  ADVISORY  WRITE 12 00:1b:1 0 EOF\n", 3},
		{"1: OFDLCK ADVISORY  WRITE -1 00:1b:155753 0 EOF\n" + oneLock, 1},
		{strings.Repeat(oneLock, 99), 99},
		{strings.Repeat(oneLock, 500), 100},
		{strings.Repeat("x", 512*100+1), 100}, // not a list
	} {
		for range 2 {
			if got := countLocks(iotest.HalfReader(strings.NewReader(c.list)), 100); got != c.want {
				t.Errorf("%.40q…: %d locks, want %d", c.list, got, c.want)
			}
		}
	}
	if got := countLocks(iotest.TimeoutReader(strings.NewReader(oneLock)), 100); got != 100 {
		t.Errorf("a list that cannot be read has %d locks, want 100", got)
	}
}

func FuzzCountLocks(f *testing.F) {
	f.Add(oneLock)
	f.Add("\n\n -1 \n")
	f.Fuzz(func(t *testing.T, list string) {
		const most = 50
		got := countLocks(strings.NewReader(list), most)
		want := 0
		for _, line := range strings.SplitAfter(list, "\n") {
			if strings.HasSuffix(line, "\n") && !strings.Contains(line, " -1 ") {
				want++
			}
		}
		if len(list) < 512*most && got != min(want, most) || got > most {
			t.Errorf("%d locks, want %d", got, want)
		}
	})
}

// held is a list of n locks.
func held(n int) *strings.Reader { return strings.NewReader(strings.Repeat(oneLock, n)) }

// take makes calls until one is refused, and returns the number of admitted ones.
func take(l *ledger, most int) (n int) {
	for n < most && l.admit() {
		n++
	}
	return n
}

func TestLedger(t *testing.T) {
	l := &ledger{list: held(maxLocks - 1)}
	if n := take(l, 10*lookEach); n != 10*lookEach {
		t.Errorf("with few locks there were %d calls", n)
	}
	l = &ledger{list: held(maxLocks)}
	if n := take(l, 10*lookEach); n != lookEach {
		t.Errorf("with all locks taken there were %d calls, want %d", n, lookEach)
	}
	l.list, l.next = held(0), time.Now().Add(time.Hour)
	if l.admit() {
		t.Error("it looked before its time")
	}
	l.next = time.Time{}
	if n := take(l, 10); n != 10 {
		t.Error("after locks were given back there are none")
	}
	l.share()
	if n := take(l, 10*lookEach); n > lookEach {
		t.Errorf("with locks that the list may hide there were %d calls", n)
	}
	l.share()
	if l.admit() {
		t.Error("a second time has it forget calls")
	}
}
