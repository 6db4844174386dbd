// Package transfer moves files between this machine and workspaces: what goes in with a run or by belljar session cp, and what
// comes out to a folder here.
package transfer

import (
	"context"
	"os"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/notice"
)

// Copy copies between this machine and the workspaces of a service.
type Copy struct {
	Service belljar.Service
	Notice  *notice.Writer
	Session func(ctx context.Context, prefix string) (string, error) // finds a session by the beginning of its id
}

// Run copies sources to a place. One side is SESSION:PATH, the other is on this machine.
func (c *Copy) Run(ctx context.Context, sources []string, to string) (Copied, error) {
	if workspace, in := placeOf(to); in {
		return c.in(ctx, sources, workspace)
	}
	return c.out(ctx, sources, to)
}

// place is SESSION:PATH.
type place struct{ session, path string }

// placeOf reads SESSION:PATH. What exists here, or begins like a path, is here.
func placeOf(text string) (place, bool) {
	session, inside, found := strings.Cut(text, ":")
	if !found || session == "" || strings.ContainsAny(session, `/\.`) {
		return place{}, false
	}
	if _, err := os.Lstat(text); err == nil {
		return place{}, false
	}
	return place{session, inside}, true
}

// Copied is what a copy brought.
type Copied struct {
	SessionID string `json:"session_id"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
	To        string `json:"to"`
}
