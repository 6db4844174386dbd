// Package trace finds failures in the output of programs: stack traces of Python, Node, Go, Java, Ruby and Rust, and messages of
// compilers and shells. It resolves their places to files below a root, with source maps if there are any.
//
// The text is untrusted. [Parse] bounds it, runs in linear time and returns valid UTF-8.
package trace

import (
	"log/slog"
	"runtime/debug"
)

// The languages of traces.
const (
	Python     = "python"
	Node       = "node"
	Go         = "go"
	Java       = "java"
	C          = "c" // and C++, and other compilers with gcc's format
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
	KindShell     = "shell"     // a shell could not run a line; scripts continue afterwards
)

// Trace is one failure. A compiler's message is a trace with one frame.
type Trace struct {
	Language string
	Kind     string
	Warning  bool   // it did not end the program
	Type     string // ZeroDivisionError, panic, java.lang.Error, error, warning …
	Message  string // of at most 4 KiB, without the type; it may have several lines
	// Frames are ordered from the failure outwards to its callers.
	Frames []Frame
	// Related are the other exceptions of the same report, in the order in which a reader looks for the reason: causes and members of
	// groups in Python and Node, wrappers from the inside out in Java. Only the outermost trace has any: they do not nest.
	Related []Trace
}

// Frame is one place of a trace, as printed in the trace.
type Frame struct {
	File string // a path in the sandbox, absolute or relative to the program's directory; for Java package/File.java
	Line int    // from 1; 0 is unknown
	// Column and EndColumn are from 1 in characters (Node, Java: UTF-16 units, Go: bytes), 0 is unknown. EndColumn is the first one after the
	// range. If Source is set, they count from its beginning, since the trace shows the line without its indentation.
	Column, EndColumn int
	Function          string
	Source            string // the line of source in the trace, trimmed; Python only
	Skipped           string // why this is not in the program's own code, see the Skipped constants; "" if it may be

	units units // of the columns
}

// units are the units of columns.
type units int

const (
	characterUnits units = iota
	utf16Units
	byteUnits
	displayUnits // characters, with the width of a tab on a terminal
	mavenUnits   // UTF-16 units, with the width of a tab on a terminal
)

// Parse finds the traces of a text, in the order in which they begin. It reads only the first 64 KiB and the last 1 MiB of a long text,
// and the first 8 KiB of a line. It returns at most 10,000 frames and 1,000 traces. A defect of a reader costs the traces, not the
// process: the text is a stranger's.
func Parse(text string) []Trace {
	return guarded(func() []Trace { return parse(text) })
}

func guarded(read func() []Trace) (found []Trace) {
	defer func() {
		if r := recover(); r != nil {
			slog.Error("output cannot be parsed for a failure", "panic", r, "stack", string(debug.Stack()))
			found = nil
		}
	}()
	return read()
}

func parse(text string) []Trace {
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

// Failure returns the trace that most likely ended the program: the last exception, else the last failed test, else the first compiler
// message, else the last shell message; false if there is none. It ignores warnings.
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

// All returns the trace itself and its related ones, in order.
func (t Trace) All() []Trace {
	related := t.Related
	t.Related = nil
	return append([]Trace{t}, related...)
}
