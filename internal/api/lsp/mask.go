package lsp

import (
	"regexp"
	"strings"
	gosync "sync"
)

// mark describes how a string or a comment of a language begins and ends. A mark without close ends with its line.
type mark struct {
	open, close string
	escapes     bool // a backslash escapes the next character
	lines       bool // it may span lines
	nests       bool
}

// syntax describes the strings and comments of a language. The first mark that fits counts.
type syntax struct {
	marks      []mark
	characters bool // 'x' is one character, and any other ' is no quote
	regexps    bool // / … / is a regular expression where no value ended
}

func syntaxOf(language string) (x syntax) {
	comment, block, text := mark{open: "//"}, mark{open: "/*", close: "*/", lines: true}, mark{open: `"`, close: `"`, escapes: true}
	single := mark{open: "'", close: "'", escapes: true}
	switch language {
	case "python":
		x.marks = []mark{{open: "#"}, {`"""`, `"""`, true, true, false}, {"'''", "'''", true, true, false}, text, single}
	case "javascript", "typescript":
		x.marks, x.regexps = []mark{comment, block, text, single, {"`", "`", true, true, false}}, true
	case "go":
		x.marks, x.characters = []mark{comment, block, text, {"`", "`", false, true, false}}, true
	case "java":
		x.marks, x.characters = []mark{comment, block, {`"""`, `"""`, true, true, false}, text}, true
	case "ruby":
		x.marks = []mark{{open: "#"}, text, single}
	case "c", "c++":
		x.marks, x.characters = []mark{comment, block, text}, true
	case "rust":
		block.nests, text.lines = true, true
		x.marks, x.characters = []mark{comment, block, text}, true
	}
	return x
}

// mask replaces the contents of strings and comments with blanks. Lines and offsets stay the same.
func mask(text string, x syntax) string {
	out := []byte(text)
	last := byte('\n') // the last character that is not blank
	for i := 0; i < len(text); {
		n := x.length(text[i:], last)
		if n == 0 {
			if c := text[i]; c != ' ' && c != '\t' && c != '\r' {
				last = c
			}
			i++
			continue
		}
		for end := i + n; i < end; i++ {
			if out[i] != '\n' && out[i] != '\r' {
				out[i] = ' '
			}
		}
		last = '"'
	}
	return string(out)
}

// mostRegexp is the longest regular expression that mask recognizes, in bytes. It bounds the scan at each place where one
// may begin.
const mostRegexp = 500

// length returns the length of the string or comment at the beginning of s; 0 if s begins with neither.
func (x syntax) length(s string, last byte) int {
	switch {
	case s[0] == '\'' && x.characters:
		return len(characters().FindString(s[:min(len(s), 16)]))
	case s[0] == '/' && x.regexps && !strings.HasPrefix(s, "//") && !strings.HasPrefix(s, "/*") && strings.IndexByte("(,=:[!&|?{};\n+", last) >= 0:
		return len(regexps().FindString(s[:min(len(s), mostRegexp)]))
	}
	for _, m := range x.marks {
		if strings.HasPrefix(s, m.open) {
			return m.length(s)
		}
	}
	return 0
}

func (m mark) length(s string) int {
	depth := 0
	for i := len(m.open); i < len(s); i++ {
		switch rest := s[i:]; {
		case !m.lines && (s[i] == '\n' || s[i] == '\r'):
			return i
		case m.escapes && s[i] == '\\':
			i++
		case m.nests && strings.HasPrefix(rest, m.open):
			depth++
			i += len(m.open) - 1
		case m.close != "" && strings.HasPrefix(rest, m.close):
			i += len(m.close) - 1
			if depth--; depth < 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

var (
	characters = gosync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^'(?:\\.[^'\n]*|[^\\'\n])'`) })
	regexps    = gosync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/(?:\\.|\[(?:\\.|[^]\\\r\n])*]|[^/\\[\r\n])+/`) })
)
