package runtime

import (
	"context"
	"errors"
)

// Claimer is a runtime whose sandboxes can be made before it is known for whom.
type Claimer interface {
	// Blank returns what of spec is settled at birth, with all that [Claimer.Claim] can settle later at its least:
	// specs with the same blank can take each other's sandbox. A blank with an id and a lease can be created.
	Blank(spec Spec) Spec
	// Claim gives the sandbox from, which Create made here for the blank of spec and in which nothing has run, to the
	// caller of spec: from then on it is spec.ID in every respect, and spec's limits are in force. Only the lease is
	// still that of its birth: the agent takes another one. A sandbox is claimed once; [ErrNotFound] if there is no
	// from to be had, ErrGone if it has ended. A failure leaves nothing, neither of from nor of spec.ID.
	Claim(ctx context.Context, from string, spec Spec) (Sandbox, error)
}

// ErrFull means that this host has no room for another sandbox as long as those that there are live.
var ErrFull = errors.New("no room for another sandbox")
