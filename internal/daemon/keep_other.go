//go:build !linux

package daemon

import (
	"io"

	"github.com/belljar/belljar"
)

// becomeKeep fails: only Linux has runtimes that need a keep.
func becomeKeep(io.Reader, string) error {
	return &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "there is nothing to keep on this system"}
}
