//go:build !unix

package build

func usualMask() {}
