package trace

import "strings"

// rust reads a panic with its backtrace, and a message of rustc.
func (p *parser) rust(line string) bool {
	if _, rest, ok := strings.Cut(line, " panicked at "); ok && strings.HasPrefix(line, "thread '") {
		return p.rustPanic(rest)
	}
	kind, message, ok := strings.Cut(line, ": ")
	name, code, _ := strings.Cut(kind, "[")
	if !ok || name != "error" && name != "warning" {
		return false
	}
	place, ok := strings.CutPrefix(strings.TrimLeft(p.line(1), " "), "--> ")
	f, placed := position(place)
	if !ok || !placed {
		return false
	}
	p.at += 2
	t := Trace{Language: Rust, Kind: KindMessage, Warning: name == "warning", Type: name, Message: message}
	if code != "" {
		t.Type = strings.TrimSuffix(code, "]")
	}
	for n := range 6 { // the mark is below the line with the number
		_, mark, ok := strings.Cut(p.line(n), "|")
		if i := strings.IndexByte(mark, '^'); ok && i >= 0 && strings.Trim(mark[:i], " -") == "" {
			f.EndColumn = f.Column + len(mark[i:]) - len(strings.TrimLeft(mark[i:], "^"))
			break
		}
	}
	t.Frames = []Frame{f}
	p.add(t)
	return true
}

func (p *parser) rustPanic(rest string) bool {
	t := Trace{Language: Rust, Kind: KindException, Type: "panic"}
	place := strings.TrimSuffix(rest, ":")
	if place == rest { // before 1.73: 'message', P:L:C
		i := strings.LastIndex(rest, "', ")
		if i < 1 || rest[0] != '\'' {
			return false
		}
		t.Message, place = rest[1:i], rest[i+3:]
	}
	f, ok := position(place)
	if !ok {
		return false
	}
	p.at++
	var message []string
	for t.Message == "" && len(message) < lookBack {
		s := p.line(0)
		if s == "" || strings.HasPrefix(s, "note: run with `RUST_BACKTRACE") || s == "stack backtrace:" || strings.HasPrefix(s, "thread '") {
			break
		}
		message = append(message, s)
		p.at++
	}
	t.Message += strings.Join(message, "\n")
	t.Frames = []Frame{f}
	if p.line(0) == "stack backtrace:" {
		p.at++
		p.rustFrames(&t)
	}
	p.add(t)
	return true
}

// rustFrames reads "  N: F" and "        at P:L:C".
func (p *parser) rustFrames(t *Trace) {
	top, function := t.Frames[0], ""
	for ; p.at < len(p.lines); p.at++ {
		trimmed := strings.TrimLeft(p.lines[p.at], " ")
		if trimmed == p.lines[p.at] {
			return
		}
		place, ok := strings.CutPrefix(trimmed, "at ")
		if !ok {
			_, function, _ = strings.Cut(trimmed, ": ")
			continue
		}
		f, ok := position(place)
		if !ok || len(t.Frames) >= mostFrames {
			continue
		}
		f.File = strings.TrimPrefix(f.File, "./")
		if f.Function = function; f.File == top.File && f.Line == top.Line && t.Frames[0].Function == "" {
			t.Frames[0].Function = function
			continue
		}
		t.Frames = append(t.Frames, f)
	}
}

// ruby reads an exception with its callers and causes, and a message about a program that does not parse.
func (p *parser) ruby(line string) bool {
	head, message, ok := strings.Cut(line, ": ")
	if !ok || line[0] == ' ' || line[0] == '\t' {
		return false
	}
	f, ok := rubyFrame(head)
	if !ok {
		f, ok = position(head)
		if !ok || f.Column != 0 || !strings.HasSuffix(f.File, ".rb") || !strings.HasPrefix(message, "syntax error") {
			return false
		}
		p.at++
		p.add(Trace{Language: Ruby, Kind: KindMessage, Type: "SyntaxError", Message: strings.TrimSuffix(message, " (SyntaxError)"), Frames: []Frame{f}})
		return true
	}
	t := p.rubyOne(f, message)
	for len(t.Related) < mostRelated {
		head, message, ok := strings.Cut(p.line(0), ": ")
		f, framed := rubyFrame(head)
		if !ok || !framed {
			break
		}
		t.Related = append(t.Related, p.rubyOne(f, message))
	}
	p.add(t)
	return true
}

// rubyOne reads one exception, whose first line has a frame and a message.
func (p *parser) rubyOne(f Frame, message string) Trace {
	t := Trace{Language: Ruby, Kind: KindException, Message: message, Frames: []Frame{f}}
	if i := strings.LastIndex(message, " ("); i >= 0 && strings.HasSuffix(message, ")") {
		t.Message, t.Type = message[:i], message[i+2:len(message)-1]
	}
	for p.at++; p.at < len(p.lines); p.at++ {
		rest, ok := strings.CutPrefix(strings.TrimLeft(p.lines[p.at], "\t "), "from ")
		f, framed := rubyFrame(rest)
		if !ok || !framed || rest == p.lines[p.at] {
			break
		}
		if len(t.Frames) < mostFrames {
			t.Frames = append(t.Frames, f)
		}
	}
	return t
}

// rubyFrame reads "P:N:in `f'", and with Ruby 3.4 "P:N:in 'f'".
func rubyFrame(s string) (Frame, bool) {
	place, function, ok := strings.Cut(s, ":in ")
	if !ok || len(function) < 2 || function[0] != '`' && function[0] != '\'' {
		return Frame{}, false
	}
	f, ok := position(place)
	f.Function = strings.TrimSuffix(function[1:], "'")
	return f, ok && f.Column == 0
}
