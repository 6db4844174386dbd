package belljar

import (
	"fmt"
	"strings"
)

// RunFailure is the reason of a failed run, parsed from its output: the last exception with its stack trace, else the last failed test, else
// the first compiler message. It is not verified: a program may print it and fail for another reason. See docs/failures.md.
type RunFailure struct {
	Language string `json:"language"`          // python, node, go, java, c, rust, typescript, ruby, shell
	Type     string `json:"type,omitempty"`    // ZeroDivisionError, panic, java.lang.IllegalStateException, error …
	Message  string `json:"message,omitempty"` // at most 1 KiB, without the type
	// Frames are ordered from the innermost frame, where the failure occurred, to the outermost: at most 20, of 4 KiB in all.
	Frames []FailureFrame `json:"frames"`
}

// FailureFrame is one place of a [RunFailure].
type FailureFrame struct {
	File     string `json:"file"`             // relative to the workspace if that is known, else as the program printed it
	Line     int    `json:"line,omitempty"`   // from 1; 0 is unknown
	Column   int    `json:"column,omitempty"` // from 1, in the units of the language's own traces; 0 is unknown
	Function string `json:"function,omitempty"`
	// Skipped is why this frame is not in the program's own code: runtime, package, inline (it has no file), elsewhere (outside the
	// workspace, or unknown). It is "" for the program's own code.
	Skipped string `json:"skipped,omitempty"`
}

// Place returns the first frame in the program's own code; false if there is none.
func (f *RunFailure) Place() (FailureFrame, bool) {
	if f != nil {
		for _, frame := range f.Frames {
			if frame.Skipped == "" {
				return frame, true
			}
		}
	}
	return FailureFrame{}, false
}

// String formats the frame as main.py:12 in load.
func (f FailureFrame) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	if f.Function != "" && f.Function != "<module>" {
		b.WriteString(" in " + f.Function)
	}
	return b.String()
}
