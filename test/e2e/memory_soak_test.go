//go:build linux && soak

package e2e

import (
	"fmt"
	"testing"
)

// TestSoakMemoryRandom is TestMemoryRandom with a thousand programs. A late warden kills about one of 500 programs that stay just below
// their limit: docs/specification.md has that figure.
func TestSoakMemoryRandom(t *testing.T) { randomPrograms(t, 1000, 2, 95, 5) }

// TestSoakMemoryLegal fills all file systems at full speed many times, and reads a whole image.
func TestSoakMemoryLegal(t *testing.T) {
	memoryIsHeld(t)
	for range 20 {
		legal(t, nil, legalMB, 95, fillAll)
	}
	legal(t, nil, 128, 50, fmt.Sprintf(readImage, 100_000, 1<<30))
}
