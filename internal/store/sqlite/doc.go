// Package sqlite stores the records in one SQLite file: the default. Tables and columns are those of docs/compatibility.md#records, so
// that operators can query them with the sqlite3 program.
//
// All writes go through one goroutine, which commits the queued writes in one transaction. If one of them fails, the writer repeats the
// transaction with a savepoint for each, so that only the failed one is lost. The file is in WAL mode: every commit survives the death
// of the process. A commit with synchronous=FULL also survives a power failure and costs an fsync. The writer uses it if any write in
// the transaction is durable. Reads have their own connections and never wait for writes. Lists have
// connections apart from other reads, of which one user has a part.
//
// Only one process may open the store at a time. The caller ensures that with a lock.
package sqlite
