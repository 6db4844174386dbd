//go:build linux && soak

package cli_test

import "testing"

// TestSoakScripts runs the scripts that take minutes.
func TestSoakScripts(t *testing.T) { runScripts(t, "testdata/soak") }
