//go:build !linux

package layer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Unpack works on Linux only. Elsewhere it fails with [errors.ErrUnsupported].
func Unpack(context.Context, io.Reader, string, Options) (Stats, error) {
	return Stats{}, fmt.Errorf("unpack layers on Linux only: %w", errors.ErrUnsupported)
}

// Merge works on Linux only. Elsewhere it fails with [errors.ErrUnsupported].
func Merge(context.Context, string, []string) (Stats, error) {
	return Stats{}, fmt.Errorf("merge layers on Linux only: %w", errors.ErrUnsupported)
}

// Sync works on Linux only. Elsewhere it fails with [errors.ErrUnsupported].
func Sync(string) error {
	return fmt.Errorf("make sure of layers on Linux only: %w", errors.ErrUnsupported)
}

// Remove removes a tree, without following links. A missing dir is no error.
func Remove(dir string) error { return os.RemoveAll(dir) }
