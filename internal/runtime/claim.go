package runtime

import (
	"context"
	"errors"
)

// Claimer is a runtime whose sandboxes can be made before their caller is known.
type Claimer interface {
	// Blank returns spec without the settings that [Claimer.Claim] can change later: those have their least value.
	// Specs with the same blank can use each other's sandbox. A blank with an id and a lease can be created.
	Blank(spec Spec) Spec
	// Claim gives the caller of spec the sandbox from, which this process created for the blank of spec and in which
	// nothing has run. From then on its id is spec.ID, and spec's limits are in force. It keeps the lease of its
	// creation, until the agent gets another. A sandbox can be claimed once. Claim returns [ErrNotFound] if from does
	// not exist and ErrGone if it has ended. After a failure neither from nor spec.ID exists.
	Claim(ctx context.Context, from string, spec Spec) (Sandbox, error)
}

// ErrFull means that this host has no room for another sandbox until a living one ends.
var ErrFull = errors.New("no room for another sandbox")
