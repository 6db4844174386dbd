// Package scenario plays one list of steps, scenario.json, through every client of a server: the Go client, the command
// line, and the SDKs for TypeScript and Python, which must all have the same results. README.md describes the file and
// the drivers. This package contains the drivers of the client and of the command line.
package scenario
