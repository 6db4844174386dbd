//go:build !linux

package daemon

import (
	"io"

	"github.com/belljar/belljar"
)

// becomeKeep has nothing to keep: sandboxes with agents of this kind are Linux's.
func becomeKeep(io.Reader, string) error {
	return &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "there is nothing to keep on this system"}
}
