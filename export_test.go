package belljar

// Bounds, for tests.
const (
	MaxArgs         = maxArgs
	MaxArgBytes     = maxArgBytes
	MaxEnv          = maxEnv
	MaxEnvBytes     = maxEnvBytes
	MaxStdinBytes   = maxStdinBytes
	MaxPatterns     = maxPatterns
	MaxPatternBytes = maxPatternBytes
	MaxLabels       = maxLabels
	MaxLabelBytes   = maxLabelBytes
	MaxPathBytes    = maxPathBytes
	MaxNameBytes    = maxNameBytes
	MaxScopeBytes   = maxScopeBytes
	InlineBytes     = inlineBytes
)

// Namespaces are the valid namespaces of a scope.
func Namespaces() []string { return namespaces() }
