//go:build !linux

package shelf

import (
	"errors"
	"io"
	"os"
	"time"
)

// unpackTree is for sandboxes of this host, which are not supported on this system.
func unpackTree(io.Reader, string, int64, int, int) (bytes, files int64, err error) {
	return 0, 0, errors.ErrUnsupported
}

// setLinkTime does nothing: a link keeps its creation time.
func setLinkTime(*os.Root, string, time.Time) error { return nil }
