// Package transfer moves files between this machine and workspaces: the files of a run and of belljar session cp, and the files
// that come back.
package transfer

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/notice"
)

// Copy copies between this machine and the workspaces of a service.
type Copy struct {
	Service belljar.Service
	Notice  *notice.Writer
	Session func(ctx context.Context, prefix string) (string, error) // finds a session by a prefix of its id
}

// Run copies sources to a destination. One side is SESSION:PATH, the other is on this machine.
func (c *Copy) Run(ctx context.Context, sources []string, to string) (Copied, error) {
	if workspace, in := placeOf(to); in {
		return c.in(ctx, sources, workspace)
	}
	ctx, stopped := interrupt.Context(ctx)
	copied, err := c.out(ctx, sources, to)
	return copied, stopped(err)
}

// place is SESSION:PATH.
type place struct{ session, path string }

// placeOf parses SESSION:PATH. An existing file, or text that begins like a path, is local.
func placeOf(text string) (place, bool) {
	session, inside, found := strings.Cut(text, ":")
	if !found || session == "" || strings.ContainsAny(session, `/\.`) || filepath.VolumeName(text) != "" { // as C: of Windows
		return place{}, false
	}
	if _, err := os.Lstat(text); err == nil {
		return place{}, false
	}
	return place{session, inside}, true
}

// Copied is the result of a copy.
type Copied struct {
	SessionID string `json:"session_id"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
	To        string `json:"to"`
}
