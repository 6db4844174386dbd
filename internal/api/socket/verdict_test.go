package socket

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestBrief checks that a reason fits into a close frame, and is valid text.
func TestBrief(t *testing.T) {
	for _, reason := range []string{"", "short", "a" + strings.Repeat("é", 60), strings.Repeat("€", 60), strings.Repeat("x", 120)} {
		got := Verdict{Reason: reason}.Brief()
		if len(got) > 123 || !utf8.ValidString(got) || len(reason) <= 120 && got != reason || len(got) < min(len(reason), 100) {
			t.Errorf("%q: %q", reason, got)
		}
	}
}
