// Package cli is the commands of belljar, one file each. They talk to the interfaces of the root package and do not know
// what stands behind them: the client of a server, or this machine (internal/local), which cmd/belljar puts there.
package cli
