//go:build !linux

package nest

// Main runs tests and returns their status: there are no namespaces here.
func Main(tests func() int) int { return tests() }
