//go:build linux

package gvisor

// lastID is the highest user and group: the ids inside are gVisor's own, and signed numbers.
const lastID = 1<<31 - 2
