// Package cli is the commands of belljar, one file each. They talk to the interfaces of the root package and do not know
// what stands behind them: the client of a server, or this machine (internal/local), which cmd/belljar puts there.
// Below it are their parts: program finds out what to run, transfer moves files, terminal is a person at a session's terminal,
// show prints answers and progress, mistake makes errors, and bench and host look at this machine.
package cli
