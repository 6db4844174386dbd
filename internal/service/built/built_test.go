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
