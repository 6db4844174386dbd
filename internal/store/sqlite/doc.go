// Package sqlite keeps the store in one SQLite file: the default. Tables and columns are those of docs/compatibility.md#records, so that its
// §27's queries work on it with the sqlite3 program.
//
// All writes go through one goroutine, which gathers those that wait into one transaction: each in a savepoint of its
// own, so that one that fails fails alone. The file is in WAL mode: a commit survives the death of the process as it
// is, and the loss of power if it was made with synchronous=FULL, which costs an fsync. A transaction is made so when a
// write in it has to be durable. Reads have connections of their own and never wait for writes.
//
// The store belongs to one process at a time. Whoever opens it sees to that, with a lock on the data folder.
package sqlite
