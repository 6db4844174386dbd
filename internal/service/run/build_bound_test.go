package run

import "testing"

// The cache stays within its bound, and evicts the least recently used programs.
func TestBuiltProgramsAreBounded(t *testing.T) {
	var b builtPrograms
	first, key := buildKey{0: 255}, buildKey{}
	for i := range 20 {
		key[0] = byte(i)
		b.put(&builtProgram{key: key, program: make([]byte, maxBuiltAll/8)})
		if i == 0 {
			first = key
		}
		if b.get(first) == nil {
			t.Fatalf("what is used again and again is gone after %d others", i)
		}
	}
	if b.size > maxBuiltAll || len(b.byKey) != 8 || b.order.Len() != 8 {
		t.Errorf("%d bytes in %d programs", b.size, len(b.byKey))
	}
	if b.put(&builtProgram{key: key, program: make([]byte, 1)}); b.size != maxBuiltAll {
		t.Errorf("one that is there was taken again: %d bytes", b.size)
	}
}
