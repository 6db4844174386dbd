package service

import "io"

// feed copies r to a command's standard input, as fast as the command takes it, and closes that at r's end. When the
// command ends the next write fails and feed returns; while r itself blocks nobody waits for it.
func feed(to sink, r io.Reader) {
	// A reader that fails ends the command's input as one that is at its end does; a write that fails means that
	// there is nobody left to tell.
	_, _ = io.Copy(to, r)
	_ = to.CloseStdin()
}
