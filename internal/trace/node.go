package trace

import (
	"net/url"
	"strings"
)

// lookFar is how many lines above a stack of V8 its message may begin: an assertion's message has the values and their differences.
const lookFar = 64

// node reads a stack of V8, with or without the place, line and mark that Node prints above an uncaught error.
func (p *parser) node(line string) bool {
	if _, ok := nodeFrame(line); ok && indent(line) >= 4 {
		margin := line[:indent(line)]
		raised := p.nodeRaised(margin)
		t := Trace{Language: Node, Kind: KindException}
		if len(margin) > 4 && nodeHeader(raised[0]) { // the test runner has indented it
			t.Kind = KindTest
		}
		t.Type, t.Message = nodeType(raised)
		p.nodeStack(&t, margin)
		p.add(t)
		return true
	}
	f, ok := nodePlace(line)
	if !ok {
		return false
	}
	mark := p.line(2)
	from, to, marked := carets(mark)
	n := 3
	for n < 5 && p.line(n) == "" {
		n++
	}
	switch {
	case p.line(n) == "" || strings.HasPrefix(p.line(n), "    at "):
		return false
	case marked && strings.Trim(mark[from:to], "^") == "":
		if f.Column = from + 1; to > f.Column {
			f.EndColumn = to + 1
		}
	case strings.TrimSpace(mark) != "" || !strings.HasPrefix(p.line(4), "SyntaxError: "): // an empty line has no mark, nor the one below
		return false
	}
	first, end := n, 0 // end is after the message: at the stack, or else at the first empty line
	for ; n < first+lookFar; n++ {
		s := p.line(n)
		if strings.HasPrefix(s, "    at ") {
			end = n
			break
		}
		if end == 0 && (s == "" || strings.HasPrefix(s, "(Use `node ")) {
			end = n
		}
		if s == "" && p.line(n+1) == "" || strings.HasPrefix(s, "Node.js v") {
			break
		}
	}
	if end <= first { // no stack and no message
		return false
	}
	t := Trace{Language: Node, Kind: KindException}
	if header, open, ok := nodeBare(p.line(first)); ok {
		t.Type, t.Message = nodeType([]string{header})
		if p.at += first + 1; open {
			p.nodeProperties(&t, "    ")
		}
		t.nodeTop(f)
		if len(t.Frames) == 0 && len(t.Related) > 0 { // the first member has the relevant frames
			outer, related := t, t.Related
			outer.Related = nil
			t = related[0]
			t.Related = append([]Trace{outer}, related[1:]...)
		}
		p.add(t)
		return true
	}
	t.Type, t.Message = nodeType(p.lines[p.at+first : min(p.at+end, len(p.lines))])
	p.at += end
	p.nodeStack(&t, "    ")
	t.nodeTop(f)
	p.add(t)
	return true
}

// nodeRaised returns the lines of a message above a stack, with at least the indentation of its header.
func (p *parser) nodeRaised(margin string) (lines []string) {
	raised := p.raised(lookFar, func(line string) bool {
		return indent(line) <= len(margin) && nodeHeader(strings.TrimLeft(line, " "))
	})
	for _, line := range raised {
		lines = append(lines, strings.TrimPrefix(line, raised[0][:indent(raised[0])]))
	}
	return lines
}

// nodePlace parses "P:N", the first of the lines above an error.
func nodePlace(line string) (Frame, bool) {
	if line[0] == ' ' || line[0] == '\t' {
		return Frame{}, false
	}
	file, n, ok := lastNumber(line)
	if !ok || file == "" || strings.HasSuffix(file, " ") {
		return Frame{}, false
	}
	f := Frame{File: file, Line: n, units: utf16Units}
	f.nodeFile()
	return f, true
}

// nodeTop prepends the place above the error, unless the stack has it: a syntax error has no frame of its own.
func (t *Trace) nodeTop(f Frame) {
	if f.Skipped == SkippedRuntime || skipped(f.File) == SkippedRuntime {
		return
	}
	for _, other := range t.Frames {
		if other.File == f.File && other.Line == f.Line {
			return
		}
	}
	if t.Type == "SyntaxError" {
		t.Kind = KindMessage
	}
	t.Frames = append([]Frame{f}, t.Frames...)
}

// nodeStack reads frames, and the properties of the error.
func (p *parser) nodeStack(t *Trace, margin string) {
	if open := p.nodeFrames(t, margin); open {
		p.nodeProperties(t, margin)
	}
}

// nodeProperties reads the properties of an error with its causes and members, up to the closing bracket.
func (p *parser) nodeProperties(t *Trace, margin string) {
	for p.at < len(p.lines) {
		line, next := p.lines[p.at], p.line(1)
		if line == margin[4:]+"}" {
			p.at++
			return
		}
		if !strings.HasPrefix(line, margin[2:]) {
			return
		}
		p.at++
		inner := next[:indent(next)]
		if !strings.HasPrefix(next[len(inner):], "at ") || len(inner) <= indent(line) || len(t.Related) >= mostRelated {
			continue
		}
		one := Trace{Language: Node, Kind: KindException}
		one.Type, one.Message = nodeType([]string{strings.TrimPrefix(strings.TrimSpace(line), "[cause]: ")})
		p.nodeFrames(&one, inner)
		t.Related = append(t.Related, one)
	}
}

// nodeFrames reads lines of a stack with an indentation. open reports that the error's properties follow.
func (p *parser) nodeFrames(t *Trace, margin string) (open bool) {
	for ; p.at < len(p.lines); p.at++ {
		rest, ok := strings.CutPrefix(p.lines[p.at], margin)
		if !ok || !strings.HasPrefix(rest, "at ") && !strings.HasPrefix(rest, "... ") {
			return false
		}
		rest, open = strings.CutSuffix(rest, " {")
		if f, ok := nodeFrame(strings.TrimSuffix(rest, ",")); ok && len(t.Frames) < mostFrames {
			t.Frames = append(t.Frames, f)
		}
		if open {
			p.at++
			return true
		}
	}
	return false
}

// nodeFrame parses "at F (P:L:C)", "at P:L:C" and "at eval (eval at F (P:L:C), <anonymous>:1:1)". For the last form, the place is the call of
// eval.
func nodeFrame(line string) (f Frame, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "at ")
	if !ok || len(rest) > 4<<10 {
		return f, false
	}
	rest = strings.TrimSuffix(rest, " {")
	place := strings.TrimPrefix(rest, "async ")
	if function, in, ok := strings.Cut(rest, " ("); ok && strings.HasSuffix(in, ")") {
		f.Function = strings.TrimPrefix(function, "async ")
		place = in[:len(in)-1]
		for strings.HasPrefix(place, "eval at ") {
			_, in, ok := strings.Cut(place, " (")
			end := strings.LastIndex(in, "), ")
			if !ok || end < 0 {
				break
			}
			place = in[:end]
		}
	}
	if where, ok := position(place); ok {
		f.File, f.Line, f.Column, f.units = where.File, where.Line, where.Column, utf16Units
		f.nodeFile()
		return f, true
	}
	switch {
	case place == "<anonymous>", place == "native", strings.HasPrefix(place, "index "), strings.HasPrefix(place, "wasm:"):
		f.File, f.Skipped = place, SkippedRuntime
		return f, true
	}
	return f, false
}

// nodeFile converts a frame's URL to a path, and marks code without a file as skipped.
func (f *Frame) nodeFile() {
	if rest, ok := strings.CutPrefix(f.File, "file://"); ok {
		f.File = rest
		if plain, err := url.PathUnescape(rest); err == nil {
			f.File = strings.ToValidUTF8(plain, "\uFFFD")
		}
		if len(f.File) > 3 && f.File[0] == '/' && f.File[2] == ':' { // of Windows: /C:/x
			f.File = f.File[1:]
		}
	}
	if strings.HasPrefix(f.File, "[eval]") || strings.HasPrefix(f.File, "[stdin]") || strings.HasPrefix(f.File, "evalmachine.") {
		f.Skipped = SkippedInline
	}
	if strings.HasPrefix(f.File, "internal/") && strings.HasSuffix(f.File, ".js") { // of Node 14 and earlier, without "node:"
		f.Skipped = SkippedRuntime
	}
}

// nodeHeader reports whether a line is the header of an error.
func nodeHeader(line string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(line, "Uncaught "), ": ")
	name, _, coded := strings.Cut(name, " [")
	return isName(name) && (coded || strings.HasSuffix(name, "Error") || strings.HasSuffix(name, "Exception"))
}

// nodeBare reads the line of an error without a stack: "[TypeError: message]", possibly with properties, " { code: 1 }", or on the next
// lines.
func nodeBare(line string) (header string, open, ok bool) {
	rest, ok := strings.CutPrefix(line, "[")
	if !ok || !nodeHeader(rest) {
		return "", false, false
	}
	if rest, open = strings.CutSuffix(rest, " {"); !open && strings.HasSuffix(rest, " }") {
		if i := strings.LastIndex(rest, "] { "); i >= 0 {
			rest = rest[:i+1]
		}
	}
	header, ok = strings.CutSuffix(rest, "]")
	return header, open, ok
}

// nodeType splits a thrown value: "TypeError: message", "Error [CODE]: message", or any value.
func nodeType(raised []string) (name, message string) {
	message = strings.TrimPrefix(strings.Join(raised, "\n"), "Uncaught ")
	if !nodeHeader(raised[0]) {
		return "", message
	}
	name, message, _ = strings.Cut(message, ": ")
	name, _, _ = strings.Cut(name, " [")
	return name, message
}
