// Package stdin is the standard input of commands: of interactive runs, to which callers write under limits, and of requests
// with an input.
package stdin

import "io"

// Feed copies r to the standard input of a command, as fast as the command reads, and closes that input at the end of r. After
// the command ends, the next write fails and Feed returns. If r blocks, nothing waits for Feed.
func Feed(to Sink, r io.Reader) {
	// A failed reader ends the input in the same way as its end. A write fails when the command has ended.
	_, _ = io.Copy(to, r)
	_ = to.CloseStdin()
}
