package belljar_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
)

func TestNewID(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 10_000 {
		id := belljar.NewID()
		if !form.MatchString(id) || !belljar.ValidID(id) {
			t.Fatalf("%q is no UUIDv7", id)
		}
		if seen[id] {
			t.Fatalf("%s came twice", id)
		}
		seen[id] = true
	}
}

// An id made in a later millisecond sorts after.
func TestNewIDSortsByTime(t *testing.T) {
	first := belljar.NewID()
	for start := time.Now().UnixMilli(); time.Now().UnixMilli() == start; {
	}
	if second := belljar.NewID(); second <= first {
		t.Errorf("%s, then %s", first, second)
	}
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "0": true, "a-b": true, strings.Repeat("x", 64): true,
		"": false, "-a": false, "A": false, "a/b": false, "..": false, "a.b": false, "a b": false, "é": false, "a\x00": false,
		strings.Repeat("x", 65): false,
	} {
		if belljar.ValidID(id) != want {
			t.Errorf("ValidID(%q) = %t", id, !want)
		}
	}
}
