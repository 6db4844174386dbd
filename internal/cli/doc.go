// Package cli holds the commands of belljar, one file each. They use the interfaces of the root package, whose implementation
// cmd/belljar provides: the client of a server, or this machine (internal/local). The sub-packages are their parts: program
// determines what to run, transfer moves files, terminal attaches the user's terminal to a session's, show prints results and
// progress, mistake makes errors, and bench and host examine this machine.
package cli
