package sync

import (
	"path"
	"regexp"
	"strings"
	gosync "sync"
)

// pattern is one line of an ignore file.
type pattern struct {
	negate bool
	dirs   bool                   // it matches only directories
	name   bool                   // it has no slash, and so matches names at any depth
	fits   func(name string) bool // matches the name of a file, or its path below the ignore file
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
	// Git compares the text before the first wildcard literally. The rest is a separate pattern.
	text := strings.TrimPrefix(line, "/")
	begin := text
	if i := strings.IndexAny(text, wildcards); i >= 0 {
		begin = text[:i]
	}
	suffix := strings.TrimPrefix(text, "*")
	expression := gosync.OnceValue(func() *regexp.Regexp { return wild(text[len(begin):], !p.name) })
	switch {
	case begin == text:
		p.fits = func(name string) bool { return name == text }
	case p.name && suffix != text && !strings.ContainsAny(suffix, wildcards): // most patterns have this form
		p.fits = func(name string) bool { return strings.HasSuffix(name, suffix) }
	default:
		p.fits = func(name string) bool {
			rest, ok := strings.CutPrefix(name, begin)
			return ok && expression() != nil && expression().MatchString(wide(rest))
		}
	}
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

// verdict is the result of ignore files for a path.
type verdict int

const (
	undecided verdict = iota
	ignored
	kept
)

// judge returns the verdict of these rules for a path below the root.
func (r rules) judge(name string, dir bool) verdict {
	if r.base != "" {
		var below bool
		if name, below = strings.CutPrefix(name, r.base+"/"); !below {
			return undecided
		}
	}
	for i := len(r.patterns) - 1; i >= 0; i-- {
		p, at := r.patterns[i], name
		if p.name {
			at = path.Base(name)
		}
		if p.dirs && !dir || !p.fits(at) {
			continue
		}
		if p.negate {
			return kept
		}
		return ignored
	}
	return undecided
}
