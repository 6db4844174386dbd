// Package flock locks open files: between processes, and between two holders in one process. A lock ends with
// its file.
package flock

import "errors"

// ErrBusy means that another process or goroutine holds a lock.
var ErrBusy = errors.New("locked by another process")
