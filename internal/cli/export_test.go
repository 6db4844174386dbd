package cli

// ExitFailure is the status of every failure that is not the program's own.
const ExitFailure = exitFailure

// OnHost reports whether the image of this machine's own programs has a program.
func OnHost(name string) bool { return newHostImage().find(name) != "" }
