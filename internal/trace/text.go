package trace

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// Bounds of the input and the result.
const (
	headBytes   = 64 << 10
	tailBytes   = 1 << 20
	mostLine    = 8 << 10
	mostMessage = 4 << 10
	mostName    = 1 << 10 // of a type, a function or a file
	mostFrames  = 10_000
	mostTraces  = 1_000
	mostRelated = 64
	lookBack    = 16 // lines of a message
)

// bound returns the part of a text that [Parse] reads: its first 64 KiB and its last 1 MiB, split at line ends if possible.
func bound(text string) (head, tail string) {
	if len(text) <= headBytes+tailBytes {
		return text, ""
	}
	head, tail = text[:headBytes], text[len(text)-tailBytes:]
	if i := strings.LastIndexByte(head, '\n'); i >= 0 {
		head = head[:i+1]
	}
	if i := strings.IndexByte(tail, '\n'); i >= 0 {
		tail = tail[i+1:]
	}
	return head, tail
}

// lines returns the lines of a text without line ends, escape sequences and invalid UTF-8. An empty line marks omitted text, so that no trace
// spans the gap.
func lines(text string) []string {
	head, tail := bound(text)
	list := split(make([]string, 0, strings.Count(head, "\n")+strings.Count(tail, "\n")+2), head)
	if tail != "" {
		list = split(append(list, ""), tail)
	}
	return list
}

func split(list []string, text string) []string {
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		list = append(list, clean(line))
	}
	return list
}

// clean limits the length of a line, and removes its CR, invalid UTF-8 and escape sequences.
func clean(line string) string {
	if len(line) > mostLine {
		line = clip(line, mostLine)
	}
	line = strings.TrimSuffix(line, "\r")
	line = strings.ToValidUTF8(line, "\uFFFD")
	if strings.IndexByte(line, 0x1b) < 0 && !strings.Contains(line, "\u009b") { // as in most lines
		return line
	}
	return escapes().ReplaceAllString(line, "")
}

// escapes matches the escape sequences of terminals: control sequences, those with a text such as links and titles, and short
// ones. An unterminated sequence extends over all following bytes that may belong to it.
var escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:\x1b\[|\x{9b})[ -?]*[@-~]?|\x1b\][^\x07\x1b]*(?:\x07|\x1b.?)?|\x1b[\x00-\x7f]?`)
})

// clip returns the beginning of s, of at most n bytes and whole characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// number parses decimal digits of a positive 31-bit number; false if s is invalid.
func number(s string) (int, bool) {
	if s == "" || len(s) > 9 {
		return 0, false
	}
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

// lastNumber splits ":N" off the end of s.
func lastNumber(s string) (rest string, n int, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, 0, false
	}
	n, ok = number(s[i+1:])
	if !ok {
		return s, 0, false
	}
	return s[:i], n, true
}

// position parses "P:L:C" or "P:L" to a frame.
func position(s string) (Frame, bool) {
	rest, n, ok := lastNumber(s)
	if !ok || rest == "" {
		return Frame{}, false
	}
	if file, line, ok := lastNumber(rest); ok && file != "" {
		return Frame{File: file, Line: line, Column: n}, true
	}
	return Frame{File: rest, Line: n}, true
}

// carets returns the range that a line of blanks, ^ and ~ marks, in bytes from 0; false for other lines.
func carets(line string) (from, to int, ok bool) {
	trimmed := strings.TrimRight(line, " \t")
	from = len(trimmed) - len(strings.TrimLeft(trimmed, " \t"))
	if from == len(trimmed) || strings.Trim(trimmed[from:], "^~-") != "" || !strings.Contains(trimmed, "^") && !strings.Contains(trimmed, "~") {
		return 0, 0, false
	}
	return from, len(trimmed), true
}

// indent returns the number of leading blanks of a line.
func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
