//go:build linux

package warden

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A new watch removes a threshold of an earlier one: the kernel slows programs that are above it.
func TestWatchRemovesTheThreshold(t *testing.T) {
	w, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	dir := t.TempDir()
	high := filepath.Join(dir, "memory.high")
	for _, size := range []int64{8 * mib, 512 * mib} {
		if err := os.WriteFile(high, []byte("4194304\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w.Watch(Group{Dir: dir, Version: 2, Bytes: size}); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(high); err != nil || !strings.HasPrefix(string(b), "max") {
			t.Errorf("a watch over %d MiB leaves memory.high at %q (%v)", size/mib, b, err)
		}
	}
}

// A group that was removed and made again under its name is watched, too: the earlier watch is of the dead group.
func TestWatchOfAGroupMadeAgain(t *testing.T) {
	l := &loop{logger: slog.New(slog.DiscardHandler), poll: -1, wake: -1, watched: map[string]*watch{}, events: map[int32]*watch{}}
	g := Group{Dir: filepath.Join(t.TempDir(), "group"), Version: 2, Bytes: 64 * mib}
	again := func() {
		t.Helper()
		if err := os.Mkdir(g.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	watched := func() *watch {
		t.Helper()
		if err := l.watch(g); err != nil {
			t.Fatal(err)
		}
		return l.watched[g.Dir]
	}
	again()
	first := watched()
	if l.tidy(); watched() != first || l.active != 1 {
		t.Errorf("a living group is watched anew, %d active", l.active)
	}
	if err := os.Rename(g.Dir, g.Dir+".old"); err != nil { // it keeps its inode, which the next could have otherwise
		t.Fatal(err)
	}
	again()
	if second := watched(); second == first || l.active != 1 {
		t.Errorf("the watch of the dead group remains, %d active", l.active)
	}
	if err := os.Rename(g.Dir, g.Dir+".older"); err != nil {
		t.Fatal(err)
	}
	again()
	if l.tidy(); len(l.watched) != 0 || l.active != 0 {
		t.Errorf("%d dead groups are watched, %d active", len(l.watched), l.active)
	}
}

// A look that could not open all of its files, e.g. for lack of descriptors, is repeated later.
func TestLookAgain(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"memory.usage_in_bytes": "4096\n", "memory.stat": "cache 0\n"} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(in("memory.limit_in_bytes"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWatch(Group{Dir: dir, Version: 1, Bytes: 64 * mib})
	defer w.end()
	buf := make([]byte, 8<<10)
	if _, _, err := w.look(buf); err == nil {
		t.Fatal("a folder is a limit")
	}
	if err := errors.Join(os.Remove(in("memory.limit_in_bytes")), os.WriteFile(in("memory.limit_in_bytes"), []byte("4096\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if charged, _, err := w.look(buf); err != nil || charged != 4096 || w.max != Limit(64*mib) {
		t.Errorf("charged %d, limit %d, %v", charged, w.max, err)
	}
}

// Looks at many groups take a small part of a processor, however long a look takes on this machine.
func TestLooksAreRare(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"memory.usage_in_bytes": "67108864\n", "memory.limit_in_bytes": "73400320\n", "memory.stat": "cache 0\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := newWatch(Group{Dir: dir, Version: 1, Bytes: 64 * mib})
	defer w.end()
	l := &loop{active: 50, full: 50, buf: make([]byte, 8<<10)}
	for range 200 {
		l.step(w)
	}
	if l.cost <= 0 || l.cost > dearest {
		t.Errorf("a look takes %v", l.cost)
	}
	l.cost = dearest
	before := time.Now()
	l.step(w)
	if wait := w.due.Sub(before); wait < 50*dearest { // a shorter wait would take all of its time
		t.Errorf("50 groups of which a look takes %v have the next after %v", dearest, wait)
	}
}

// A group whose charge is below its limit needs one file for a look. It gets an event only when it has had some looks, since most
// end before.
func TestCalmGroup(t *testing.T) {
	dir := t.TempDir()
	charge := func(bytes string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "memory.usage_in_bytes"), []byte(bytes), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	charge("4096\n")
	l, err := newLoop(slog.New(slog.DiscardHandler), unix.CPUSet{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	w := newWatch(Group{Dir: dir, Version: 1, Bytes: 64 * mib})
	l.watched[dir], l.active = w, 1
	for n := range young {
		l.step(w)
		if w.calm != n+1 || w.arming || w.early() == 0 || l.cost != 0 || l.watched[dir] != w {
			t.Fatalf("look %d: %d calm looks, an event: %t, early %v, a look takes %v", n, w.calm, w.arming, w.early(), l.cost)
		}
	}
	if l.step(w); !w.arming {
		t.Error("a group that lives on gets no event")
	}
	charge("67108864\n") // its memory needs a look, which finds that its other files are gone
	if l.step(w); l.watched[dir] != nil {
		t.Error("a full group gets no look")
	}
}
