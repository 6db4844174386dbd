// Package leak finds goroutines that the tests of a package leave running.
//
//	func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long ended work may take to finish on a slow and busy machine. goleak alone waits less than half a
// second.
const patience = time.Minute

// Main runs the tests and then waits until no goroutine is left. It returns the exit status.
func Main(m *testing.M, options ...goleak.Option) int {
	code := m.Run()
	if code != 0 {
		return code // failed tests may leave anything
	}
	if err := Find(patience, options...); err != nil {
		fmt.Fprintln(os.Stderr, "leak: after tests that have passed:", err)
		return 1
	}
	return 0
}

// Find returns the remaining goroutines as an error after patience, or nil as soon as none is left.
func Find(patience time.Duration, options ...goleak.Option) error {
	for until := time.Now().Add(patience); ; {
		err := goleak.Find(options...)
		if err == nil || time.Now().After(until) {
			return err
		}
	}
}
