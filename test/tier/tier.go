// Package tier sets how much a test does: make test does each thing a few times, make soak, which sets the build tag soak, many
// times.
package tier

import (
	"os"
	"strconv"
	"testing"
)

// Rounds returns few, or with the build tag soak many. BELLJAR_TEST_ROUNDS, a number, replaces either.
func Rounds(t testing.TB, few, many int) int {
	t.Helper()
	if text := os.Getenv("BELLJAR_TEST_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("BELLJAR_TEST_ROUNDS is %q, want a number of 1 and more", text)
		}
		return n
	}
	return Pick(few, many)
}

// Pick returns the value for make test, or with the build tag soak that for make soak.
func Pick[T any](test, long T) T {
	if soak {
		return long
	}
	return test
}

// Soak skips a test that only make soak runs.
func Soak(t testing.TB) {
	t.Helper()
	if !soak {
		t.Skip("make soak runs this; so does go test -tags soak")
	}
}
