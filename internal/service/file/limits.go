package file

// Bounds of requests. docs/api.md repeats them.
const (
	defaultListEntries = 1000 // of a listing without a limit
	maxListEntries     = 10000

	defaultMatches  = 100 // of a search without a limit
	maxMatches      = 1000
	maxPatternBytes = 1024 // of a glob
	maxSearchBytes  = 1024 // of what is searched for
	maxMatchedBytes = 500  // of a line that is reported

	maxBatchFiles = 1000 // of one batch
)
