//go:build !linux

package daemon

import (
	"context"
	"errors"

	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/runtime"
)

// scale measures sandboxes from the host's side, which requires Linux.
type scale struct{ rt runtime.Runtime }

var errNoScale = errors.New("sandboxes can be weighed on Linux only; leave it out with --idle 0 --crowd 0")

func (scale) measureIdle(context.Context, int) (*local.IdleWeight, error)   { return nil, errNoScale }
func (scale) measureCrowd(context.Context, int) (*local.CrowdResult, error) { return nil, errNoScale }
