package shelf

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestReserve checks that layers that are held, also forgotten ones and those of another process, leave no room above Keep, and that others make room.
func TestReserve(t *testing.T) {
	s := &Shelf{Dir: filepath.Join(t.TempDir(), "shelf"), Keep: 3 * (page + 1), Max: 60}
	reserve := func(what string, of *Shelf, want bool) (release func()) {
		t.Helper()
		release, ok := of.Reserve(1, 1)
		if ok != want {
			t.Fatalf("%s: %v", what, ok)
		}
		return release
	}
	first := reserve("a new shelf", s, true)
	second, third := reserve("two", s, true), reserve("three", s, true)
	reserve("as many as are being made", s, false)
	for _, release := range []func(){first, second, third} {
		release()
	}
	a, b := putX(t, s, "a"), putX(t, s, "b")
	putX(t, s, "c").Release()
	reserve("one in no use is swept", s, true)()
	if keys := s.Keys(); !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("%q are kept", keys)
	}
	c := putX(t, s, "c")
	s.Forget("a")
	reserve("all are held", s, false)
	other := &Shelf{Dir: s.Dir, Keep: s.Keep}
	reserve("all are held by another process", other, false)
	a.Release()
	reserve("one was released", s, true)()
	b.Release()
	c.Release()
	if _, ok := s.Reserve(s.Keep+1, 0); ok || len(s.Keys()) == 0 {
		t.Errorf("more than Keep: %v, %q are kept", ok, s.Keys())
	}
}
