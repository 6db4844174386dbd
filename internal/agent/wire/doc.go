// Package wire is the protocol between a host and the agent inside a sandbox.
package wire
