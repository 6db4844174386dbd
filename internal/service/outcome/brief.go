package outcome

import (
	"strings"
	"unicode/utf8"
)

// Bounds of a run's record, in bytes, since a page of a list has up to 200 records. The command itself is not shortened.
const (
	mostCommand  = 16 << 10
	mostText     = 4 << 10 // of a message or a warning
	mostWarnings = 32
)

// TruncateCommand returns the part of a command that is recorded, and whether it was shortened.
func TruncateCommand(argv []string) (kept []string, cut bool) {
	room := mostCommand
	for i, arg := range argv {
		if room -= len(arg) + 1; room < 0 {
			kept = append([]string(nil), argv[:i]...)
			if rest := clip(arg, len(arg)+room); rest != "" {
				kept = append(kept, rest)
			}
			return kept, true
		}
	}
	return argv, false
}

// TruncateText returns the part of a text that is recorded, with a mark if it was shortened.
func TruncateText(s string) string {
	if len(s) <= mostText {
		return s
	}
	return clip(s, mostText) + "…"
}

// TruncateWarnings returns the warnings that are recorded.
func TruncateWarnings(all []string) []string {
	var kept []string
	for i, w := range all {
		if i == mostWarnings {
			return append(kept, "there were more warnings")
		}
		kept = append(kept, TruncateText(w))
	}
	return kept
}

// clip returns a copy of the beginning of s, of at most n bytes and whole characters.
func clip(s string, n int) string {
	if n <= 0 {
		return ""
	}
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:min(n, len(s))])
}
