package git

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"
)

// ignoreFile is the name of the file with a folder's ignore patterns, in Docker's syntax.
const ignoreFile = ".dockerignore"

// Bounds of an ignore file: the number of its patterns, and the time to compare them with all names. A microsecond for each is usual, so that
// 50 patterns and 50,000 files take 3 s. One with many stars can take a hundred times as long.
const (
	mostPatterns = 1000
	matchTime    = 10 * time.Second
)

// ignore is a parsed ignore file. The last matching pattern of a path counts. A pattern that matches a folder matches all of its content.
type ignore struct {
	rules []rule
	left  time.Duration // out of matchTime
}

// rule is one pattern: a text, or an expression if it has special characters.
type rule struct {
	keep bool // it began with !
	text string
	expr *regexp.Regexp
}

// parseIgnore parses an ignore file.
func parseIgnore(text string) (*ignore, error) {
	list := &ignore{left: matchTime}
	for n, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var r rule
		p := strings.TrimSpace(line)
		if rest, found := strings.CutPrefix(p, "!"); found {
			r.keep, p = true, strings.TrimSpace(rest)
		}
		if p == "" && !r.keep {
			continue
		}
		p = strings.TrimPrefix(path.Clean("/"+p), "/")
		if p == "" {
			continue // the folder itself
		}
		if len(list.rules) == mostPatterns {
			return nil, fmt.Errorf("it has more than %d patterns", mostPatterns)
		}
		if r.text = p; strings.ContainsAny(p, `*?[\`) {
			expr, err := expression(p)
			if err == nil {
				r.expr, err = regexp.Compile(expr)
			}
			if err != nil {
				return nil, fmt.Errorf("line %d is not a pattern", n+1)
			}
		}
		list.rules = append(list.rules, r)
	}
	return list, nil
}

// expression converts a pattern to a regular expression for its path and everything below it.
func expression(p string) (string, error) {
	var b strings.Builder
	b.WriteString("^(?s:")
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '*':
			switch rest := p[i:]; {
			case strings.HasPrefix(rest, "**/"):
				b.WriteString("(?:.*/)?")
				i += 2
			case strings.HasPrefix(rest, "**"):
				b.WriteString(".*")
				i++
			default:
				b.WriteString("[^/]*")
			}
		case '?':
			b.WriteString("[^/]")
		case '[':
			end := strings.IndexByte(p[i:], ']')
			if end < 2 {
				return "", errors.New("a bracket is not closed")
			}
			set := p[i+1 : i+end]
			b.WriteByte('[')
			if rest, not := strings.CutPrefix(set, "^"); not {
				set = rest
				b.WriteByte('^')
			}
			b.WriteString(strings.NewReplacer(`\`, `\\`, `[`, `\[`, `^`, `\^`, `&`, `\&`).Replace(set) + "]")
			i += end
		case '\\':
			if i++; i == len(p) {
				return "", errors.New("it ends with a backslash")
			}
			b.WriteString(literal(p, &i))
		default:
			b.WriteString(literal(p, &i))
		}
	}
	b.WriteString(")(?:/|$)")
	return b.String(), nil
}

// literal returns the text from p[i] to the next special character. i becomes the index of its last byte.
func literal(p string, i *int) string {
	end := *i + 1
	for end < len(p) && !strings.ContainsRune(`*?[\`, rune(p[end])) {
		end++
	}
	text := p[*i:end]
	*i = end - 1
	return regexp.QuoteMeta(text)
}

// errComparison means that comparing an ignore file with a tree takes longer than matchTime.
var errComparison = errors.New("its patterns take too long to compare with so many names")

// ignored reports whether a path is ignored. Without an ignore file, none is.
func (l *ignore) ignored(name string) (out bool, err error) {
	if l == nil {
		return false, nil
	}
	begun := time.Now()
	for i := range l.rules {
		if r := &l.rules[i]; r.keep == out && r.match(name) {
			out = !r.keep
		}
	}
	if l.left -= time.Since(begun); l.left < 0 {
		return false, errComparison
	}
	return out, nil
}

func (r *rule) match(name string) bool {
	if r.expr != nil {
		return r.expr.MatchString(name)
	}
	rest, found := strings.CutPrefix(name, r.text)
	return found && (rest == "" || rest[0] == '/')
}
