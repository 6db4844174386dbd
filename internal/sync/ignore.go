package sync

import (
	"strings"
)

// pattern is one line of an ignore file.
type pattern struct {
	text   string // without the mark of negation and the slash at the end
	negate bool
	dirs   bool // it is for directories only
	name   bool // it has no slash, so that it is for names at any depth
}

// rules are the lines of one ignore file. They apply to paths below base.
type rules struct {
	base     string // a path below the root; "" is the root
	patterns []pattern
}

// parseRules reads an ignore file as Git does.
func parseRules(base, text string) rules {
	r := rules{base: base}
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if p, ok := parsePattern(trimSpaces(line)); ok {
			r.patterns = append(r.patterns, p)
		}
	}
	return r
}

func parsePattern(line string) (p pattern, ok bool) {
	if i := strings.IndexByte(line, 0); i >= 0 {
		line = line[:i]
	}
	line, p.negate = strings.CutPrefix(line, "!")
	line, p.dirs = strings.CutSuffix(line, "/")
	p.name = !strings.Contains(line, "/")
	p.text = line
	return p, line != ""
}

// trimSpaces removes the spaces at the end of a line, unless a backslash keeps one.
func trimSpaces(line string) string {
	end := -1
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			if end < 0 {
				end = i
			}
			continue
		case '\\':
			if i++; i == len(line) {
				return line
			}
		}
		end = -1
	}
	if end >= 0 {
		return line[:end]
	}
	return line
}

// verdict is what ignore files say about a path.
type verdict int

const (
	unsaid verdict = iota
	ignored
	kept
)

// judge returns what these rules say about a path below the root.
func (r rules) judge(path string, dir bool) verdict {
	name := path
	if r.base != "" {
		var below bool
		if name, below = strings.CutPrefix(path, r.base+"/"); !below {
			return unsaid
		}
	}
	for i := len(r.patterns) - 1; i >= 0; i-- {
		p := r.patterns[i]
		if p.dirs && !dir || !p.matches(name) {
			continue
		}
		if p.negate {
			return kept
		}
		return ignored
	}
	return unsaid
}

// matches reports whether the pattern is about a path relative to its ignore file.
func (p pattern) matches(path string) bool {
	if p.name {
		return wild(p.text, path[strings.LastIndexByte(path, '/')+1:], false)
	}
	text := strings.TrimPrefix(p.text, "/")
	// Git compares what stands in front of the first wildcard as it is. What remains counts as a pattern of its own.
	literal := strings.IndexAny(text, `?*[\`)
	if literal < 0 {
		return text == path
	}
	rest, ok := strings.CutPrefix(path, text[:literal])
	return ok && wild(text[literal:], rest, true)
}

// wild reports whether a pattern matches all of a text. With paths, no wildcard but ** matches a slash.
func wild(pattern, text string, paths bool) bool {
	w := wildcard{pattern: pattern, paths: paths, left: mostSteps}
	return w.match(0, text) == matched
}

// mostSteps bounds the work for one pattern and one path: ignore files may be hostile. A pattern that needs more matches nothing.
const mostSteps = 1 << 16

type outcome int

const (
	matched   outcome = iota
	differs           // try a longer match of the asterisk before
	exhausted         // no longer match of any asterisk helps
	slashed           // only a double asterisk can help
)

type wildcard struct {
	pattern string
	paths   bool
	left    int
}

// at returns a byte of the pattern; 0 behind its end.
func (w *wildcard) at(i int) byte {
	if i < 0 || i >= len(w.pattern) {
		return 0
	}
	return w.pattern[i]
}

func (w *wildcard) match(p int, text string) outcome {
	for ; p < len(w.pattern); p++ {
		if w.left--; w.left < 0 {
			return exhausted
		}
		c := w.pattern[p]
		if text == "" && c != '*' {
			return exhausted
		}
		switch c {
		case '*':
			rest, end, done := w.star(p, text)
			if done {
				return end
			}
			p, text = rest.p, rest.text
			continue
		case '?':
			if w.paths && text[0] == '/' {
				return differs
			}
		case '[':
			next, in, ok := w.set(p, text[0])
			if !ok {
				return exhausted
			}
			if !in || w.paths && text[0] == '/' {
				return differs
			}
			p = next
		case '\\':
			p++
			fallthrough
		default:
			if text[0] != w.at(p) {
				return differs
			}
		}
		text = text[1:]
	}
	if text != "" {
		return differs
	}
	return matched
}

// place is where matching goes on.
type place struct {
	p    int
	text string
}

// star matches one or more asterisks at p. If it is not done, matching goes on behind a slash.
func (w *wildcard) star(p int, text string) (on place, end outcome, done bool) {
	before := p - 1
	slashes := !w.paths
	p++
	if w.at(p) == '*' {
		for w.at(p) == '*' {
			p++
		}
		if w.paths && (before < 0 || w.pattern[before] == '/') &&
			(p == len(w.pattern) || w.at(p) == '/' || w.at(p) == '\\' && w.at(p+1) == '/') {
			if w.at(p) == '/' && w.match(p+1, text) == matched {
				return on, matched, true
			}
			slashes = true
		}
	}
	if p == len(w.pattern) {
		if !slashes && strings.Contains(text, "/") {
			return on, slashed, true
		}
		return on, matched, true
	}
	if !slashes && w.at(p) == '/' {
		i := strings.IndexByte(text, '/')
		if i < 0 {
			return on, exhausted, true
		}
		return place{p, text[i+1:]}, 0, false
	}
	for ; text != ""; text = text[1:] {
		switch end := w.match(p, text); {
		case end == differs:
			if !slashes && text[0] == '/' {
				return on, slashed, true
			}
		case !slashes || end != slashed:
			return on, end, true
		}
		if w.left < 0 {
			break
		}
	}
	return on, exhausted, true
}

// set reports whether c is in the set that begins at p, and where the set ends; not ok if it does not end.
func (w *wildcard) set(p int, c byte) (end int, in, ok bool) {
	p++
	negated := w.at(p) == '!' || w.at(p) == '^'
	if negated {
		p++
	}
	var before byte // for a range
	for first := true; first || w.at(p) != ']'; first, p = false, p+1 {
		if p >= len(w.pattern) {
			return p, false, false
		}
		this := w.pattern[p]
		switch {
		case this == '\\':
			if p++; p >= len(w.pattern) {
				return p, false, false
			}
			this = w.pattern[p]
			in = in || c == this
		case this == '-' && before != 0 && p+1 < len(w.pattern) && w.at(p+1) != ']':
			p++
			if w.at(p) == '\\' {
				if p++; p >= len(w.pattern) {
					return p, false, false
				}
			}
			in = in || before <= c && c <= w.pattern[p]
			this = 0
		case this == '[' && w.at(p+1) == ':':
			i := strings.IndexByte(w.pattern[p+2:], ']')
			if i < 0 {
				return p, false, false
			}
			if i == 0 || w.at(p+2+i-1) != ':' {
				in = in || c == '['
				break
			}
			is, known := class(w.pattern[p+2:p+2+i-1], c)
			if !known {
				return p, false, false
			}
			in = in || is
			p += 2 + i
			this = 0
		default:
			in = in || c == this
		}
		before = this
	}
	return p, in != negated, true
}

// class reports whether a byte is in a class of characters.
func class(name string, c byte) (in, known bool) {
	lower, upper, digit := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9'
	graph := 0x21 <= c && c <= 0x7e
	switch name {
	case "alnum":
		in = lower || upper || digit
	case "alpha":
		in = lower || upper
	case "blank":
		in = c == ' ' || c == '\t'
	case "cntrl":
		in = c < 0x20 || c == 0x7f
	case "digit":
		in = digit
	case "graph":
		in = graph
	case "lower":
		in = lower
	case "print":
		in = graph || c == ' '
	case "punct":
		in = graph && !lower && !upper && !digit
	case "space":
		in = c == ' ' || '\t' <= c && c <= '\r'
	case "upper":
		in = upper
	case "xdigit":
		in = digit || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
	default:
		return false, false
	}
	return in, true
}
