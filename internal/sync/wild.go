package sync

import (
	"fmt"
	"regexp"
	"strings"
)

// wildcards are the characters that begin the part of a pattern that is not compared literally.
const wildcards = `?*[\`

// mostPattern is the maximum length of a pattern with wildcards, in bytes: ignore files may be hostile. A longer pattern matches
// nothing.
const mostPattern = 1 << 10

// wild returns an expression for a Git pattern, to match texts from wide; nil if the pattern matches nothing. With paths, only **
// matches a slash.
func wild(pattern string, paths bool) *regexp.Regexp {
	if len(pattern) > mostPattern {
		return nil
	}
	one, many := `.`, `.*`
	if paths {
		one, many = `[^/]`, `[^/]*`
	}
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*':
			begin := i
			for i+1 < len(pattern) && pattern[i+1] == '*' {
				i++
			}
			rest := pattern[i+1:]
			switch folders := paths && i > begin && (begin == 0 || pattern[begin-1] == '/'); {
			case folders && strings.HasPrefix(rest, "/"):
				b.WriteString(`(?:.*/)?`)
				i++
			case folders && (rest == "" || strings.HasPrefix(rest, `\/`)):
				b.WriteString(`.*`)
			default:
				b.WriteString(many)
			}
		case '?':
			b.WriteString(one)
		case '[':
			in, end := set(pattern, i)
			if end < 0 {
				return nil
			}
			in['/'] = in['/'] && !paths
			b.WriteString(`[^\x{100}-\x{10ffff}`)
			for c, is := range in {
				if !is {
					fmt.Fprintf(&b, `\x{%x}`, c)
				}
			}
			b.WriteString(`]`)
			i = end
		case '\\':
			if i++; i == len(pattern) {
				return nil
			}
			fallthrough
		default:
			fmt.Fprintf(&b, `\x{%x}`, pattern[i])
		}
	}
	return regexp.MustCompile(`(?s)^` + b.String() + `$`)
}

// wide returns a text with one character for each byte, since Git's wildcards match bytes.
func wide(text string) string {
	if !strings.ContainsFunc(text, func(c rune) bool { return c >= 0x80 }) {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		b.WriteRune(rune(text[i]))
	}
	return b.String()
}

// classes are the ranges of the character classes: the first and the last byte of each.
var classes = map[string]string{
	"alnum": "09AZaz", "alpha": "AZaz", "blank": "  \t\t", "cntrl": "\x00\x1f\x7f\x7f", "digit": "09", "graph": "!~", "lower": "az", "print": " ~",
	"punct": "!/:@[`{~", "space": "  \t\r", "upper": "AZ", "xdigit": "09AFaf",
}

// set returns the set of bytes that begins at i, and its end; -1 if the set does not end, or has an unknown class.
func set(pattern string, i int) (in [256]bool, end int) {
	take := func(from, to byte) {
		for c := int(from); c <= int(to); c++ {
			in[c] = true
		}
	}
	at := func(i int) byte { // 0 after the end
		if i < len(pattern) {
			return pattern[i]
		}
		return 0
	}
	i++
	negated := at(i) == '!' || at(i) == '^'
	if negated {
		i++
	}
	var before byte // start of a range
	for first := true; first || at(i) != ']'; first, i = false, i+1 {
		this := at(i)
		switch {
		case this == '\\':
			i++
			this = at(i)
			take(this, this)
		case this == '-' && before != 0 && at(i+1) != ']' && i+1 < len(pattern):
			if i++; at(i) == '\\' {
				i++
			}
			take(before, at(i))
			this = 0
		case this == '[' && at(i+1) == ':':
			name, _, ends := strings.Cut(pattern[i+2:], "]")
			if !ends {
				return in, -1
			}
			class, is := strings.CutSuffix(name, ":")
			if !is {
				take('[', '[')
				break
			}
			bounds, known := classes[class]
			if !known {
				return in, -1
			}
			for ; bounds != ""; bounds = bounds[2:] {
				take(bounds[0], bounds[1])
			}
			i += 2 + len(name)
			this = 0
		default:
			take(this, this)
		}
		if i >= len(pattern) {
			return in, -1
		}
		before = this
	}
	for c := range in {
		in[c] = in[c] != negated
	}
	return in, i
}
