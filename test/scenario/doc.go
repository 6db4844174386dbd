// Package scenario plays one list of steps, scenario.json, through every way that programs have into a server: the Go
// client, the command line, and the SDKs for TypeScript and Python, which must all come to the same. README.md describes
// the file and what a driver is; the drivers of the client and of the command line are here.
package scenario
