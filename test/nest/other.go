//go:build !linux

package nest

// Main runs tests and returns their status: this system has no namespaces.
func Main(tests func() int) int { return tests() }
