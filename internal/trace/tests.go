package trace

import "strings"

// tests reads the output of test runners.
func (p *parser) tests(line string) bool {
	return p.goTest(line) || p.pytestLine(line) || p.tap(line)
}

// pytest collects the frames and the message of one failing test.
type pytest struct {
	frames  []Frame // outermost first
	message string
}

// isRule reports whether a line separates parts of pytest's output.
func isRule(line string) bool {
	return strings.HasPrefix(line, "____") || strings.HasPrefix(line, "====") || strings.HasPrefix(line, "----") && strings.Contains(line, "- Captured ")
}

// pytestLine reads a line of pytest. Its long form ends with "P:N: Type", its short form has "P:N: in F" and then the message.
func (p *parser) pytestLine(line string) bool {
	t := &p.pytest
	switch {
	case strings.HasPrefix(line, "____"), strings.HasPrefix(line, "===="):
		p.endPytest()
		return false
	case strings.HasPrefix(line, "E  "):
		if t.message == "" && len(line) > 3 {
			t.message = strings.TrimSpace(line[3:])
		}
		return false
	}
	i := strings.Index(line, ".py:")
	if i <= 0 || line[0] == ' ' {
		return false
	}
	head, rest, ok := strings.Cut(line, ": ")
	f, placed := position(head)
	if !ok || !placed || f.Column != 0 || !strings.HasSuffix(f.File, ".py") || strings.HasPrefix(f.File, "E ") {
		return false
	}
	function, in := strings.CutPrefix(rest, "in ")
	switch {
	case in:
		f.Function = function
	case rest != "" && !isName(rest):
		return false
	}
	if len(t.frames) < mostFrames {
		t.frames = append(t.frames, f)
	}
	p.at++
	if in {
		if s := p.line(0); strings.HasPrefix(s, "    ") {
			t.frames[len(t.frames)-1].Source = strings.TrimSpace(s)
			p.at++
		}
	} else if rest != "" {
		p.endPytest()
	}
	return true
}

// endPytest adds the failing test that was read.
func (p *parser) endPytest() {
	t := p.pytest
	p.pytest = pytest{}
	if len(t.frames) == 0 || t.message == "" {
		return
	}
	one := Trace{Language: Python, Kind: KindTest}
	one.Type, one.Message = cutType(t.message)
	if strings.HasPrefix(t.message, "assert ") {
		one.Type, one.Message = "AssertionError", t.message
	}
	for i := len(t.frames) - 1; i >= 0; i-- {
		one.Frames = append(one.Frames, t.frames[i])
	}
	p.add(one)
}

// tap reads a failed test of Node, with its lines between --- and ....
func (p *parser) tap(line string) bool {
	margin := line[:indent(line)]
	rest, ok := strings.CutPrefix(line[len(margin):], "not ok ")
	_, name, named := strings.Cut(rest, " - ")
	if !ok || !named || p.line(1) != margin+"  ---" {
		return false
	}
	t := Trace{Language: Node, Kind: KindTest, Message: name}
	var text *[]string
	var message, stack []string
	n := 2
	for ; n < 256 && p.at+n < len(p.lines); n++ {
		s, ok := strings.CutPrefix(p.line(n), margin+"  ")
		if !ok || s == "..." {
			break
		}
		if strings.HasPrefix(s, "  ") || s == "" {
			if text != nil && len(*text) < 64 {
				*text = append(*text, strings.TrimSpace(s))
			}
			continue
		}
		text = nil
		key, value, _ := strings.Cut(s, ": ")
		plain := strings.Trim(value, "'")
		switch {
		case key == "failureType" && plain == "subtestsFailed":
			p.at += n
			return true
		case key == "error" && value == "|-":
			text = &message
		case key == "error":
			message = []string{plain}
		case key == "stack":
			text = &stack
			if value != "|-" {
				stack = []string{plain}
			}
		case key == "name":
			t.Type = plain
		}
	}
	p.at += n
	if len(message) > 0 {
		t.Message = strings.TrimSpace(strings.Join(message, "\n"))
	}
	for _, s := range stack {
		if f, ok := nodeFrame("at " + s); ok {
			t.Frames = append(t.Frames, f)
		}
	}
	p.add(t)
	return true
}
