//go:build !linux

package spool

import "os"

// nameless creates a file that disappears with its last descriptor or, if the system needs a name for it, when the
// caller removes that name.
func nameless(dir string) (f *os.File, name string, err error) { return unnamed(dir) }
