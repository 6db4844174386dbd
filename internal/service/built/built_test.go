package built

import "testing"

// The cache stays within its bound, and evicts the least recently used programs.
func TestBounds(t *testing.T) {
	var b Programs
	first, key := Key{0: 255}, Key{}
	for i := range 20 {
		key[0] = byte(i)
		b.Put(&Program{Key: key, Bytes: make([]byte, maxAll/8)})
		if i == 0 {
			first = key
		}
		if b.Get(first) == nil {
			t.Fatalf("what is used again and again is gone after %d others", i)
		}
	}
	if b.size > maxAll || len(b.byKey) != 8 || b.order.Len() != 8 {
		t.Errorf("%d bytes in %d programs", b.size, len(b.byKey))
	}
	if b.Put(&Program{Key: key, Bytes: make([]byte, 1)}); b.size != maxAll {
		t.Errorf("one that is there was taken again: %d bytes", b.size)
	}
}

// A user who holds nothing gets a place in a cache that is full of others' programs: that of the one used least recently.
func TestNewUser(t *testing.T) {
	var b Programs
	for i := range byte(8) {
		b.Put(&Program{Key: Key{i}, User: string('a' + rune(i)), Bytes: make([]byte, maxAll/8)})
	}
	b.Get(Key{0})
	b.Put(&Program{Key: Key{8}, User: "new", Bytes: make([]byte, maxAll/8)})
	for i := range byte(9) {
		if got := b.Get(Key{i}) != nil; got == (i == 1) {
			t.Errorf("program %d is there: %v", i, got)
		}
	}
	if b.size != maxAll || len(b.held) != 8 {
		t.Errorf("%d bytes: %v", b.size, b.held)
	}
}

// A user who fills the cache evicts their own programs, and none of a user who holds less.
func TestUsers(t *testing.T) {
	var b Programs
	few := []Key{{0: 1}, {0: 2}}
	for _, key := range few {
		b.Put(&Program{Key: key, User: "ann", Bytes: make([]byte, maxAll/8)})
	}
	var last Key
	for i := range 40 {
		last = Key{1: byte(i + 1)}
		b.Put(&Program{Key: last, User: "bob", Bytes: make([]byte, maxAll/8)})
	}
	for _, key := range append(few, last) {
		if b.Get(key) == nil {
			t.Errorf("program %d is gone", key[:2])
		}
	}
	if b.size != maxAll || b.held["ann"] != maxAll/4 || b.held["bob"] != maxAll*3/4 {
		t.Errorf("%d bytes: %v", b.size, b.held)
	}
	for i := range 8 { // she takes all that he can spare
		b.Put(&Program{Key: Key{2: byte(i + 1)}, User: "ann", Bytes: make([]byte, maxAll/8)})
	}
	if b.size != maxAll || b.held["ann"] != maxAll/2 || b.Get(last) == nil {
		t.Errorf("%d bytes: %v", b.size, b.held)
	}
}
