//go:build !unix

package runtimetest

import "testing"

func testImage(t *testing.T, _ Options) { t.Skip("images are unpacked on unix only") }
