package belljar

import (
	"fmt"
	"strings"
)

// RunFailure is what the output of a failed run says about the reason: the last exception with its stack trace, else the last failed test,
// else the first message of a compiler. A program may have printed it and failed for another reason: nothing checks that. See docs/failures.md.
type RunFailure struct {
	Language string `json:"language"`          // python, node, go, java, c, rust, typescript, ruby, shell
	Type     string `json:"type,omitempty"`    // ZeroDivisionError, panic, java.lang.IllegalStateException, error …
	Message  string `json:"message,omitempty"` // at most 1 KiB, without the type
	// Frames begin where the failure happened and go outwards to its callers: at most 20, of 4 KiB in all.
	Frames []FailureFrame `json:"frames"`
}

// FailureFrame is one place of a [RunFailure].
type FailureFrame struct {
	File     string `json:"file"`             // below the workspace as far as that is known, else as the program named it
	Line     int    `json:"line,omitempty"`   // from 1; 0 is unknown
	Column   int    `json:"column,omitempty"` // from 1, in the units of the language's own traces; 0 is unknown
	Function string `json:"function,omitempty"`
	// Skipped is why this is no place of the program's own: runtime, package, inline (it has no file), elsewhere (outside the
	// workspace); "" if it is one.
	Skipped string `json:"skipped,omitempty"`
}

// Place returns the first frame of the program's own; false if there is none.
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

// String returns the frame as people write it: main.py:12 in load.
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
