package trace

import (
	"path"
	"strings"
)

// message reads a line of a compiler: "P:L[:C]: error: M" of most, "P:L:C: M" of Go, "P(L,C): error TS1: M" of tsc, and what its next
// lines mark.
func (p *parser) message(line string) bool {
	if line[0] == ' ' || line[0] == '\t' {
		return false
	}
	head, rest, ok := strings.Cut(line, ": ")
	if !ok {
		p.placed(line)
		return false
	}
	if head == "vet" {
		head, rest, ok = strings.Cut(rest, ": ")
	}
	if t, ok := typescript(head, rest); ok {
		p.at++
		p.add(t)
		return true
	}
	f, placed := position(head)
	if !ok || !placed {
		p.placed(line)
		return false
	}
	t := Trace{Kind: KindMessage, Language: languageOf(f.File)}
	for _, severity := range []string{"error", "fatal error", "warning"} {
		if message, ok := strings.CutPrefix(rest, severity+": "); ok {
			t.Type, t.Message, t.Warning = severity, message, severity == "warning"
		}
	}
	switch {
	case t.Type != "":
	case strings.HasPrefix(rest, "undefined reference to "):
		t.Type, t.Message = "error", rest
	case t.Language == Go && f.Column > 0:
		t.Type, t.Message = "error", rest
	default:
		return false
	}
	p.at++
	switch t.Language {
	case Java:
		for n := range 4 {
			if s := strings.TrimSpace(p.line(n)); s == "^" {
				f.Column = strings.IndexByte(p.line(n), '^') + 1
				p.at += n + 1
				break
			}
		}
	case Go:
		f.units = byteUnits
	case C:
		f.units, f.Function = displayUnits, p.place
		f.EndColumn = f.Column + p.marked()
		if f.EndColumn == f.Column {
			f.EndColumn = 0
		}
	}
	t.Frames = []Frame{f}
	p.add(t)
	return true
}

// marked is how wide the mark two lines below a message of gcc or clang is: "      |    ^~~~".
func (p *parser) marked() int {
	_, mark, ok := strings.Cut(p.line(1), "|")
	i := strings.IndexByte(mark, '^')
	if !ok || i < 0 {
		return 0
	}
	return len(mark[i:]) - len(strings.TrimLeft(mark[i:], "^~"))
}

// placed notes the function that the next messages of a C compiler are about.
func (p *parser) placed(line string) {
	if !strings.HasSuffix(line, ":") {
		return
	}
	for _, words := range []string{": In function ", ": In member function ", ": In constructor "} {
		if _, name, ok := strings.Cut(line, words); ok {
			p.place = strings.Trim(strings.TrimSuffix(name, ":"), "‘’'`")
			return
		}
	}
	if strings.Contains(line, ": At ") || strings.Contains(line, ": In ") {
		p.place = ""
	}
}

// typescript reads both forms of tsc's messages.
func typescript(head, rest string) (t Trace, ok bool) {
	t = Trace{Language: TypeScript, Kind: KindMessage}
	f := Frame{units: utf16Units}
	if place, code, ok := strings.Cut(head, " - error TS"); ok { // P:L:C - error TS1
		if f, ok = position(place); !ok || f.Column == 0 {
			return t, false
		}
		t.Type, t.Message = "TS"+code, rest
	} else {
		code, message, ok := strings.Cut(strings.TrimPrefix(rest, "error TS"), ": ")
		i := strings.LastIndexByte(head, '(')
		if !ok || !strings.HasPrefix(rest, "error TS") || i <= 0 || !strings.HasSuffix(head, ")") {
			return t, false
		}
		line, column, _ := strings.Cut(head[i+1:len(head)-1], ",")
		f.File = head[:i]
		if f.Line, ok = number(line); !ok {
			return t, false
		}
		f.Column, _ = number(column)
		t.Type, t.Message = "TS"+code, message
	}
	f.units = utf16Units
	t.Frames = []Frame{f}
	return t, true
}

func languageOf(file string) string {
	switch path.Ext(file) {
	case ".go":
		return Go
	case ".java":
		return Java
	case ".rs":
		return Rust
	case ".ts", ".tsx", ".mts", ".cts":
		return TypeScript
	case ".js", ".mjs", ".cjs", ".jsx":
		return Node
	case ".py":
		return Python
	case ".rb":
		return Ruby
	case ".sh", ".bash":
		return Shell
	}
	return C
}
