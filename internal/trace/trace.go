// Package trace finds failures in what programs print: stack traces of Python, Node, Go, Java, Ruby and Rust, and the messages of
// compilers and shells. It resolves their places to files below a root, through source maps where there are some.
//
// The text is hostile. [Parse] bounds it, runs in linear time and answers valid UTF-8.
package trace

// The languages of traces.
const (
	Python     = "python"
	Node       = "node"
	Go         = "go"
	Java       = "java"
	C          = "c" // and C++, and whatever else reports as gcc does
	Rust       = "rust"
	TypeScript = "typescript"
	Ruby       = "ruby"
	Shell      = "shell"
)

// The kinds of traces.
const (
	KindException = "exception" // the program failed while it ran
	KindMessage   = "message"   // a compiler or interpreter refused the program's text
	KindTest      = "test"      // a test failed
	KindShell     = "shell"     // a shell could not run a line; scripts go on after that
)

// Trace is one failure. A compiler's message is a trace with one frame.
type Trace struct {
	Language string
	Kind     string
	Warning  bool   // it did not end the program
	Type     string // ZeroDivisionError, panic, java.lang.Error, error, warning …
	Message  string // of at most 4 KiB, without the type; it may have several lines
	// Frames begin with the failure and go outwards to its callers.
	Frames []Frame
	// Related are the other exceptions of the same report, in the order in which a reader looks for the reason: Python's and Node's
	// causes and members of groups, Java's wrappers from the inside out. Only the outermost trace has any: they do not nest.
	Related []Trace
}

// Frame is one place of a trace, as the trace names it.
type Frame struct {
	File string // a path in the sandbox, absolute or relative to the program's directory; for Java package/File.java
	Line int    // from 1; 0 is unknown
	// Column and EndColumn are from 1 in characters (Node: UTF-16 units, Go: bytes), 0 is unknown. EndColumn is the first one after the
	// range. If Source is set they count from its beginning, since the trace shows the line without its indentation.
	Column, EndColumn int
	Function          string
	Source            string // the line of source that the trace shows, trimmed; Python only
	Skipped           string // why this is not a place of the program's own, see the Skipped constants; "" if it may be one

	units units // of the columns
}

// units are what columns count.
type units int

const (
	characterUnits units = iota
	utf16Units
	byteUnits
	displayUnits // characters, a tab being as wide as a terminal shows it
)

// Parse finds the traces of a text, in the order in which they begin. Of a long text it reads the first 64 KiB and the last 1 MiB;
// of a line, the first 8 KiB. It keeps at most 10,000 frames and 1,000 traces.
func Parse(text string) []Trace {
	p := &parser{lines: lines(text)}
	for p.at < len(p.lines) {
		before := p.at
		p.step()
		if p.at <= before {
			p.at = before + 1
		}
	}
	p.finish()
	return p.found
}

// Failure is the trace that most likely ended the program: the last exception, else the last failed test, else the first message of
// a compiler, else the last one of a shell; false if there is none. Warnings are none.
func Failure(traces []Trace) (Trace, bool) {
	best, rank := -1, 0
	for i, t := range traces {
		r := 0
		switch {
		case t.Warning:
		case t.Kind == KindException:
			r = 4
		case t.Kind == KindTest:
			r = 3
		case t.Kind == KindMessage:
			r = 2
		case t.Kind == KindShell:
			r = 1
		}
		if r > rank || r == rank && r != 0 && r != 2 {
			best, rank = i, r
		}
	}
	if best < 0 {
		return Trace{}, false
	}
	return traces[best], true
}

// All are the trace itself and its related ones, in order.
func (t Trace) All() []Trace {
	related := t.Related
	t.Related = nil
	return append([]Trace{t}, related...)
}
