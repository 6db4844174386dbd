package cli

// ExitFailure is the status of every failure that is not the program's own.
const ExitFailure = exitFailure
