package outcome

import (
	"strings"
	"unicode/utf8"
)

// What goes on a run's record is bounded, in bytes: a page of a list has up to 200 of them. The run itself gets all of its
// command.
const (
	mostCommand  = 16 << 10
	mostText     = 4 << 10 // of a message or a warning
	mostWarnings = 32
)

// TruncateCommand is as much of a command as goes on record, and whether that is less than all of it.
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

// TruncateText is as much of a text as goes on record, with a mark if that is less than all of it.
func TruncateText(s string) string {
	if len(s) <= mostText {
		return s
	}
	return clip(s, mostText) + "…"
}

// TruncateWarnings are as many warnings as go on record.
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

// clip is the beginning of s, of at most n bytes and whole characters, in memory of its own.
func clip(s string, n int) string {
	if n <= 0 {
		return ""
	}
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:min(n, len(s))])
}
