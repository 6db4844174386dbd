//go:build linux

package gvisor

// lastID is the highest user and group: the ids inside are gVisor's own, and a signed number there.
const lastID = 1<<31 - 2
