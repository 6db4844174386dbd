// Package stdin is the standard input of commands: that of interactive runs, which callers write to under limits, and that
// which comes with a request.
package stdin

import "io"

// Feed copies r to the standard input of a command, as fast as the command reads, and closes that input at the end of r. After
// the command ends the next write fails and Feed returns; nothing waits for it while r blocks.
func Feed(to Sink, r io.Reader) {
	// A reader that fails ends the input as one at its end does. A write fails when the command is gone.
	_, _ = io.Copy(to, r)
	_ = to.CloseStdin()
}
