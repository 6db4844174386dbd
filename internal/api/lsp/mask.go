package lsp

import "strings"

// syntax is what strings and comments look like in a language.
type syntax struct {
	line     string // what a comment to the end of the line begins with
	block    bool   // /* … */
	nested   bool   // blocks nest
	triple   bool   // """ and '''
	single   bool   // ' is a string's mark; otherwise one character's
	backtick bool   // ` … ` over many lines
	raw      bool   // a backslash in backticks is nothing special
	regexps  bool   // / … / after what no value ends with
	text     bool   // """ … """ over many lines, as in Java
}

// mask replaces what is in strings and comments with blanks. Lines and places stay.
func mask(text string, x syntax) string {
	out := []byte(text)
	blank := func(from, to int) {
		for i := from; i < to && i < len(out); i++ {
			if out[i] != '\n' && out[i] != '\r' {
				out[i] = ' '
			}
		}
	}
	last := byte('\n') // what stands in front, without blanks
	for i := 0; i < len(text); {
		c, rest := text[i], text[i:]
		end := 0
		switch {
		case x.line != "" && strings.HasPrefix(rest, x.line):
			end = i + untilLine(rest)
		case x.block && strings.HasPrefix(rest, "/*"):
			end = i + blockEnd(rest, x.nested)
		case (x.triple || x.text) && strings.HasPrefix(rest, `"""`):
			end = i + until(rest, `"""`)
		case x.triple && strings.HasPrefix(rest, `'''`):
			end = i + until(rest, `'''`)
		case c == '"':
			end = i + quoted(rest, '"')
		case c == '\'' && x.single:
			end = i + quoted(rest, '\'')
		case c == '\'' && (x.block || x.line == "//"): // one character; 'a of Rust is a name
			if n := character(rest); n > 0 {
				end = i + n
			}
		case c == '`' && x.backtick:
			end = i + backtick(rest, x.raw)
		case c == '/' && x.regexps && strings.IndexByte("(,=:[!&|?{};\n+", last) >= 0:
			end = i + regexpEnd(rest)
		}
		if end > i {
			blank(i, end)
			i, last = end, '"'
			continue
		}
		if c != ' ' && c != '\t' && c != '\r' {
			last = c
		}
		i++
	}
	return string(out)
}

func untilLine(s string) int {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		return i
	}
	return len(s)
}

// until is the length of what begins and ends with mark.
func until(s, mark string) int {
	for i := len(mark); i < len(s); i++ {
		if s[i] == '\\' {
			i++
		} else if strings.HasPrefix(s[i:], mark) {
			return i + len(mark)
		}
	}
	return len(s)
}

func blockEnd(s string, nested bool) int {
	depth := 0
	for i := 0; i+1 < len(s); i++ {
		switch {
		case s[i] == '*' && s[i+1] == '/':
			if depth--; depth <= 0 {
				return i + 2
			}
			i++
		case s[i] == '/' && s[i+1] == '*' && (nested || i == 0):
			depth++
			i++
		}
	}
	return len(s)
}

// quoted is the length of a string on one line.
func quoted(s string, mark byte) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case mark:
			return i + 1
		case '\n':
			return i
		}
	}
	return len(s)
}

// character is the length of one character in quotes; 0 if there is none.
func character(s string) int {
	n := min(len(s), 12)
	for i := 1; i < n; i++ {
		switch s[i] {
		case '\\':
			i++
		case '\n', ' ':
			if i > 1 {
				return 0
			}
		case '\'':
			if i > 1 {
				return i + 1
			}
			return 0
		}
	}
	return 0
}

func backtick(s string, raw bool) int {
	for i := 1; i < len(s); i++ {
		if s[i] == '\\' && !raw {
			i++
		} else if s[i] == '`' {
			return i + 1
		}
	}
	return len(s)
}

// regexpEnd is the length of a regular expression; 0 if the line has no end of it.
func regexpEnd(s string) int {
	class := false
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[':
			class = true
		case ']':
			class = false
		case '/':
			if !class {
				return i + 1
			}
		case '\n', '\r':
			return 0
		}
	}
	return 0
}
