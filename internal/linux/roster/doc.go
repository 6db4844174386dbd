// Package roster records, on disk, processes that outlive their starters: a folder in which each process has its own folder
// and a lock file next to it. The process holds the lock from its first moment to its last. So a free lock marks a leftover,
// and a lock's holder can be found among all processes, also without a record.
//
// Used by package jar. Linux only.
package roster
