// Package roster records, on disk, processes that outlive their starters: a folder in which each has a folder of its own and
// a lock file next to it. The process holds the lock from its first moment to its last, so that a lock that is free marks a
// leftover, and its holder can be found among all processes, also without a record.
//
// Used by package jar. Linux only.
package roster
