package trace

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

// grammar is a form of messages. The names of the groups in its expression are its fields.
type grammar struct {
	language string // "" is the file's language
	has      string // a text in every such line, for a fast check
	is       func() *regexp.Regexp
	more     func(*parser, *Trace) bool // reads the following lines; false if this is no message after all. May be nil
}

// grammars are all forms of one-line messages, in the order in which they are tried.
var grammars = []grammar{
	{has: " error: ", is: messages, more: (*parser).marks},
	{has: " warning: ", is: messages, more: (*parser).marks},
	{has: "undefined reference to ", is: line(`^FILE:LINE: (?P<message>undefined reference to .*)`), more: (*parser).marks},
	// Without -g, the linker reports no line.
	{language: C, has: "undefined reference to ", is: line(`^(?:[^ ]*ld: )?(?P<file>[^ \t(]+):\(\.[^ )]*\): (?P<message>undefined reference to .*)`)},
	{language: Go, has: ".go:", is: line(`^(?:vet: )?(?P<file>.*?\.go):LINE:COLUMN: MESSAGE`), more: (*parser).marks},
	{language: Java, has: "[ERROR] ", is: line(`^\[ERROR\] FILE:\[LINE,COLUMN\] MESSAGE`)}, // Maven's
	{language: TypeScript, has: "error TS", is: line(`^FILE\(LINE(?:,COLUMN)?\): error (?P<type>TS[^:]*): MESSAGE`)},
	{language: TypeScript, has: " - error TS", is: line(`^FILE:LINE:COLUMN - error (?P<type>TS[^:]*): MESSAGE`)},
	{language: Shell, has: ": line ", is: line(`^FILE: line LINE: MESSAGE`), more: (*parser).shell},
	{language: Shell, has: "sh: ", is: line(`^(?P<file>[^ ]*sh): LINE: MESSAGE`), more: (*parser).shell},
}

var messages = line(`^FILE:LINE(?::COLUMN)?: (?P<type>(?:fatal )?error|warning): MESSAGE`)

// line compiles an expression on first use.
func line(text string) func() *regexp.Regexp {
	parts := strings.NewReplacer("FILE", `(?P<file>[^ \t].*?)`, "LINE", `(?P<line>\d{1,9})`, "COLUMN", `(?P<column>\d{1,9})`, "MESSAGE", `(?P<message>.*)`)
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(parts.Replace(text)) })
}

// message reads a message of a compiler or a shell, and the columns that its next lines mark.
func (p *parser) message(line string) bool {
	if line[0] == ' ' || line[0] == '\t' {
		return false
	}
	for _, g := range grammars {
		if !strings.Contains(line, g.has) {
			continue
		}
		t, ok := g.read(line)
		if !ok {
			continue
		}
		p.at++
		if g.more != nil && !g.more(p, &t) {
			p.at--
			continue
		}
		p.add(t)
		return true
	}
	p.placed(line)
	return false
}

func (g grammar) read(line string) (t Trace, ok bool) {
	m := g.is().FindStringSubmatch(line)
	if m == nil {
		return t, false
	}
	t, f := Trace{Language: g.language, Kind: KindMessage, Type: "error"}, Frame{}
	for i, name := range g.is().SubexpNames() {
		switch name {
		case "file":
			f.File = m[i]
		case "line":
			f.Line, _ = number(m[i])
		case "column":
			f.Column, _ = number(m[i])
		case "type":
			t.Type, t.Warning = m[i], m[i] == "warning"
		case "message":
			t.Message = m[i]
		}
	}
	switch t.Language {
	case "":
		t.Language = languageOf(f.File)
	case TypeScript:
		f.units = utf16Units
	case Java:
		f.units = mavenUnits // javac prints no column
	}
	t.Frames = []Frame{f}
	return t, true
}

// marks reads the columns that the lines after a message mark.
func (p *parser) marks(t *Trace) bool {
	f := &t.Frames[0]
	switch t.Language {
	case Java:
		for n := range 3 {
			if s := p.line(n); strings.TrimSpace(s) == "^" {
				f.Column, f.units = strings.IndexByte(s, '^')+1, utf16Units
				p.at += n + 1
				break
			}
		}
	case Go:
		f.units = byteUnits
	case C:
		f.units, f.Function = displayUnits, p.place
		if wide := p.marked(); wide > 0 {
			f.EndColumn = f.Column + wide
		}
	}
	return true
}

// shell handles the peculiarities of shells: scripts continue after most messages, and bash prints a line that it cannot parse.
func (p *parser) shell(t *Trace) bool {
	f := &t.Frames[0]
	switch strings.TrimPrefix(path.Base(f.File), "-") {
	case "bash", "sh", "dash", "environment":
		f.Skipped = SkippedInline
	default:
		if !strings.HasSuffix(f.File, ".sh") && !strings.HasPrefix(p.lines[p.at-1][len(f.File):], ": line ") {
			return false
		}
	}
	t.Kind, t.Type = KindShell, ""
	if strings.HasPrefix(strings.ToLower(t.Message), "syntax error") {
		t.Kind, t.Type, t.Message = KindMessage, "syntax error", strings.TrimPrefix(t.Message[len("syntax error"):], ":")
		if strings.HasPrefix(p.line(0), f.File+": line ") && strings.Contains(p.line(0), ": `") {
			p.at++
		}
	}
	return f.Line > 0
}

// marked returns the width of the mark in the second line below a message of gcc or clang: "      |    ^~~~".
func (p *parser) marked() int {
	_, mark, ok := strings.Cut(p.line(1), "|")
	i := strings.IndexByte(mark, '^')
	if !ok || i < 0 {
		return 0
	}
	return len(mark[i:]) - len(strings.TrimLeft(mark[i:], "^~"))
}

// placed records the function to which the next messages of a C compiler refer.
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
