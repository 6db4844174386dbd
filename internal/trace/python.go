package trace

import (
	"strings"
	"unicode/utf8"
)

const pythonHeader = "Traceback (most recent call last):"

// python reads a traceback, or the separate message about a syntax error.
func (p *parser) python(line string) bool {
	trimmed := strings.TrimLeft(line, " ")
	switch {
	case strings.HasSuffix(line, pythonHeader):
		margin, ok := pythonMargin(line)
		if !ok {
			return false
		}
		warning := p.at > p.from && strings.HasPrefix(p.lines[p.at-1], "Exception ignored ")
		p.pythonChain(margin, warning)
		return true
	case len(trimmed) != len(line) && strings.HasPrefix(trimmed, `File "`):
		f, in, ok := pythonFrame(line)
		if !ok || in {
			return false
		}
		return p.pythonSyntax(f)
	}
	return false
}

// pythonMargin returns the text before a header: "" or, in a group, "  | ". The first line of a group has a + instead of the |.
func pythonMargin(line string) (margin string, ok bool) {
	before := strings.TrimSuffix(strings.TrimSuffix(line, pythonHeader), "Exception Group ")
	switch strings.TrimLeft(before, " ") {
	case "":
		return before, before == ""
	case "+ ", "| ":
		return before[:len(before)-2] + "| ", true
	}
	return "", false
}

// strip removes the margin of a line; false if the line has none.
func strip(line, margin string) (string, bool) {
	if margin == "" {
		return line, true
	}
	if rest, ok := strings.CutPrefix(line, margin); ok {
		return rest, true
	}
	return "", line == strings.TrimRight(margin, " ")
}

// pythonChain reads a chain of tracebacks. The last one that Python prints ended the program; the others are its causes.
func (p *parser) pythonChain(margin string, warning bool) {
	t, members := p.pythonOne(margin, 0)
	t.Related = members
	for len(t.Related) < mostRelated && p.pythonNext(margin) {
		next, members := p.pythonOne(margin, 0)
		next.Related = append(members, t.All()...)
		t = next
	}
	t.Warning = warning
	p.add(t)
}

// pythonNext moves to the header of the next traceback in the chain, which is announced by a sentence between empty lines.
func (p *parser) pythonNext(margin string) bool {
	reported := false
	for n := 0; n < 6 && p.at+n < len(p.lines); n++ {
		line, ok := strip(p.line(n), margin)
		switch {
		case reported && strings.HasSuffix(p.line(n), pythonHeader):
			p.at += n
			return true
		case isChain(line):
			reported = true
		case !ok || line != "":
			return false
		}
	}
	return false
}

func isChain(line string) bool {
	return line == "The above exception was the direct cause of the following exception:" ||
		line == "During handling of the above exception, another exception occurred:"
}

// pythonOne reads the traceback whose header is the current line, and the members of its group.
func (p *parser) pythonOne(margin string, depth int) (Trace, []Trace) {
	t := Trace{Language: Python, Kind: KindException}
	p.at++
	t.Frames = p.pythonFrames(margin)
	p.pythonRaised(&t, margin)
	return t, p.pythonMembers(margin, depth)
}

// pythonFrames reads frames with the lines below them, and returns them from the failure outwards.
func (p *parser) pythonFrames(margin string) (frames []Frame) {
	for ; p.at < len(p.lines); p.at++ {
		line, ok := strip(p.lines[p.at], margin)
		if !ok || !strings.HasPrefix(line, "  ") {
			break
		}
		if f, _, ok := pythonFrame(line); ok {
			frames = append(frames, f)
			continue
		}
		if len(frames) == 0 || !strings.HasPrefix(line, "    ") {
			continue // "  [Previous line repeated 7 more times]"
		}
		pythonSource(&frames[len(frames)-1], line[4:])
	}
	for i, j := 0, len(frames)-1; i < j; i, j = i+1, j-1 {
		frames[i], frames[j] = frames[j], frames[i]
	}
	return frames
}

// pythonSource adds the lines below a frame in a traceback: first the source, then its mark.
func pythonSource(f *Frame, line string) {
	if f.Source == "" {
		f.Source = strings.TrimSpace(line)
		return
	}
	if from, to, ok := carets(line); ok && f.Column == 0 {
		f.Column, f.EndColumn = from+1, min(to, utf8.RuneCountInString(f.Source))+1
		if f.EndColumn <= f.Column {
			f.EndColumn = 0
		}
	}
}

// pythonFrame parses `  File "P", line N, in F`; in is false without a function, as for a SyntaxError.
func pythonFrame(line string) (f Frame, in, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimLeft(line, " "), `File "`)
	if !ok {
		return f, false, false
	}
	end := strings.LastIndex(rest, `", line `)
	if end < 0 {
		return f, false, false
	}
	f.File = rest[:end]
	digits, function, in := strings.Cut(rest[end+len(`", line `):], ", in ")
	f.Line, ok = number(digits)
	f.Function = function
	return f, in, ok
}

// pythonRaised reads the exception: its type, the message, which may have several lines, and notes. More than one line belongs to it
// only if no other output follows: the program may continue to print.
func (p *parser) pythonRaised(t *Trace, margin string) {
	line, ok := strip(p.line(0), margin)
	if !ok || line == "" {
		return
	}
	p.at++
	t.Type, t.Message = cutType(line)
	if t.Type == "" { // a class in a local scope: pkg.f.<locals>.Oops: message
		if name, message, ok := strings.Cut(line, ": "); ok && strings.HasSuffix(name[:strings.LastIndexByte(name, '.')+1], ">.") {
			t.Type, t.Message = name, message
		}
	}
	pythonKind(t)
	var more []string
	for n := range lookBack {
		s, ok := strip(p.line(n), margin)
		if !ok || p.at+n >= len(p.lines) || s == "" && margin != "" || strings.HasPrefix(s, "+-") || isRule(s) {
			break
		}
		if s == "" {
			next, _ := strip(p.line(n+1), margin)
			if p.at+n+1 < len(p.lines) && !isChain(next) {
				return
			}
			break
		}
		if strings.HasSuffix(s, pythonHeader) || n == lookBack-1 {
			return
		}
		more = append(more, s)
	}
	t.Message = join(t.Message, more)
	p.at += len(more)
}

// pythonKind distinguishes a syntax error from a failed program.
func pythonKind(t *Trace) {
	switch t.Type {
	case "SyntaxError", "IndentationError", "TabError":
		t.Kind = KindMessage
	}
}

// pythonMembers reads the exceptions of a group, each below its separator, up to the closing one.
func (p *parser) pythonMembers(margin string, depth int) (members []Trace) {
	if margin == "" || depth > 8 {
		return nil
	}
	outer := strings.TrimSuffix(margin, "| ")
	inner := outer + "  | "
	for {
		line := p.line(0)
		rest, ok := strings.CutPrefix(line, outer+"+-+-")
		if !ok {
			rest, ok = strings.CutPrefix(line, outer+"  +-")
		}
		if !ok || strings.Trim(rest, "- 0123456789.") != "" {
			return members
		}
		p.at++
		if strings.Trim(rest, "-") == "" { // it closes the group
			return members
		}
		for p.at < len(p.lines) {
			s, ok := strip(p.lines[p.at], inner)
			if !ok {
				break
			}
			if strings.HasSuffix(s, pythonHeader) {
				t, more := p.pythonOne(inner, depth+1)
				members = append(append(members, t), more...)
				continue
			}
			if s != "" && !strings.HasPrefix(s, " ") && !isChain(s) {
				t := Trace{Language: Python, Kind: KindException}
				p.pythonRaised(&t, inner)
				members = append(members, t)
				members = append(members, p.pythonMembers(inner, depth+1)...)
				continue
			}
			p.at++
		}
	}
}

// pythonSyntax reads Python's report of a syntax error: a place, the line, a mark and the error.
func (p *parser) pythonSyntax(f Frame) bool {
	for n := 1; n <= 4; n++ {
		line := p.line(n)
		if strings.HasPrefix(line, "    ") {
			pythonSource(&f, line[4:])
			continue
		}
		t := Trace{Language: Python, Kind: KindMessage, Frames: []Frame{f}}
		if t.Type, t.Message = cutType(line); !strings.HasSuffix(t.Type, "Error") {
			return false
		}
		p.at += n + 1
		p.add(t)
		return true
	}
	return false
}
