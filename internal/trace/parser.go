package trace

import "strings"

// parser reads the lines once. Each language's reader looks at the line at index at, and consumes the lines that it understands.
type parser struct {
	lines  []string
	at     int
	from   int // the first line that was not consumed by a trace
	found  []Trace
	frames int

	pytest pytest
	golang goTests
	place  string // the function of a C compiler's next messages
}

// step reads the construct at the next line. The checks are ordered by how certain their first words are.
func (p *parser) step() {
	line := p.lines[p.at]
	if line == "" {
		p.at++
		return
	}
	for _, read := range []func(string) bool{p.python, p.node, p.java, p.goTrace, p.rust, p.ruby, p.tests, p.message} {
		if read(line) {
			p.from = p.at
			return
		}
	}
	p.at++
}

func (p *parser) finish() {
	p.endPytest()
	p.endGoTests("")
}

// add adds a trace.
func (p *parser) add(t Trace) {
	if len(p.found) >= mostTraces {
		return
	}
	p.found = append(p.found, p.bounded(t))
}

func (p *parser) bounded(t Trace) Trace {
	t.Type, t.Message = clip(strings.TrimSpace(t.Type), mostName), clip(strings.TrimSpace(t.Message), mostMessage)
	if room := mostFrames - p.frames; len(t.Frames) > room {
		t.Frames = t.Frames[:room]
	}
	p.frames += len(t.Frames)
	for i := range t.Frames {
		f := &t.Frames[i]
		f.File, f.Function, f.Source = clip(f.File, mostName), clip(f.Function, mostName), clip(f.Source, mostName)
		if f.Skipped == "" {
			f.Skipped = skipped(f.File)
		}
	}
	if len(t.Related) > mostRelated {
		t.Related = t.Related[:mostRelated]
	}
	for i := range t.Related {
		t.Related[i] = p.bounded(t.Related[i])
	}
	return t
}

// line returns the line n after the current one, "" after the last.
func (p *parser) line(n int) string {
	if p.at+n >= len(p.lines) {
		return ""
	}
	return p.lines[p.at+n]
}

// raised returns the lines above the current one with the message of an error: from the nearest line for which is returns true, at
// most far lines above. It excludes lines of earlier traces. If there is no such line, it returns only the line directly above.
func (p *parser) raised(far int, is func(string) bool) []string {
	for i := p.at - 1; i >= max(p.from, p.at-far); i-- {
		if is(p.lines[i]) {
			return p.lines[i:p.at]
		}
	}
	if p.at > p.from {
		return p.lines[p.at-1 : p.at]
	}
	return []string{""}
}

// cutType splits "Type: message". Without a type, all of it is the message.
func cutType(s string) (name, message string) {
	name, message, ok := strings.Cut(s, ": ")
	if !ok {
		name = strings.TrimSuffix(s, ":")
	}
	if !isName(name) {
		return "", s
	}
	return name, message
}

// isName reports whether s is a dotted identifier.
func isName(s string) bool {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '$', c >= 0x80:
		default:
			return false
		}
	}
	return true
}

// join joins lines to one message.
func join(first string, rest []string) string {
	if len(rest) == 0 {
		return first
	}
	return first + "\n" + strings.Join(rest, "\n")
}
