package file

// Bounds of requests. docs/api.md repeats them.
const (
	defaultListEntries = 1000 // default of a listing
	maxListEntries     = 10000

	defaultMatches  = 100 // default of a search
	maxMatches      = 1000
	maxPatternBytes = 1024 // of a glob
	maxSearchBytes  = 1024 // of the text to search for
	maxMatchedBytes = 500  // of a reported line

	maxBatchFiles = 1000 // of one batch
)
