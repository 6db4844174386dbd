//go:build !linux

package spool

import "os"

// nameless makes a file that goes with its last descriptor or, if it has to keep a name, with that.
func nameless(dir string) (f *os.File, name string, err error) { return unnamed(dir) }
