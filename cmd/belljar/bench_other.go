//go:build !linux

package main

import (
	"context"
	"errors"

	"github.com/belljar/belljar/internal/runtime"
)

// scale measures sandboxes from the host's side, which has to be Linux.
type scale struct{ rt runtime.Runtime }

var errNoScale = errors.New("sandboxes can be weighed on Linux only; leave it out with --idle 0 --crowd 0")

func (scale) weigh(context.Context, int) (*idleWeight, error)   { return nil, errNoScale }
func (scale) gather(context.Context, int) (*crowdResult, error) { return nil, errNoScale }
