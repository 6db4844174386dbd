package terminal

import (
	"cmp"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Limits bounds the terminals in sessions. A zero field has its default.
type Limits struct {
	// Reattach is how long a terminal without a client continues; 0 is 15 min.
	Reattach time.Duration
	// Idle is the longest time without input and output; 0 is 1 h, less than 0 is no bound.
	Idle time.Duration
	// Lifetime bounds the total life of a terminal; 0 is 24 h, less than 0 is no bound.
	Lifetime time.Duration
	// PerSession and PerUser are the maximum number of terminals; 0 is 8 and 32, less than 0 is no bound.
	PerSession, PerUser int
	// Attached is how many viewers a terminal may have; 0 is 16.
	Attached int
	// History is how many bytes of output are kept for later viewers; 0 is 256 KiB, the maximum is 512 KiB.
	History int
	// Queue is how many bytes may wait for one viewer; 0 is 256 KiB.
	Queue int
	// ViewerTimeout is how long a single viewer may delay a terminal before it has read half of its queue; 0 is 10 s. With
	// several viewers, each may delay it for a tenth of that.
	ViewerTimeout time.Duration
	// InputBytes and InputMessages are how much input one viewer may send in a second; 0 is 1 MiB and 500. A burst of one
	// second passes; more is delayed.
	InputBytes, InputMessages int64
	// OutputBytes is how much output a program may print in a second before it must wait; 0 is 8 MiB.
	OutputBytes int64
}

// Complete sets zero fields to their defaults.
func (o *Limits) Complete() {
	o.Reattach = cmp.Or(o.Reattach, 15*time.Minute)
	o.Idle = cmp.Or(o.Idle, time.Hour)
	o.Lifetime = cmp.Or(o.Lifetime, 24*time.Hour)
	o.PerSession = cmp.Or(o.PerSession, 8)
	o.PerUser = cmp.Or(o.PerUser, 32)
	o.Attached = cmp.Or(o.Attached, 16)
	o.History = cmp.Or(o.History, 256<<10)
	o.History = min(o.History, wire.TerminalSpool/2) // as much as the agent keeps
	o.Queue = cmp.Or(o.Queue, 256<<10)
	o.ViewerTimeout = cmp.Or(o.ViewerTimeout, 10*time.Second)
	o.InputBytes = cmp.Or(o.InputBytes, 1<<20)
	o.InputMessages = cmp.Or(o.InputMessages, 500)
	o.OutputBytes = cmp.Or(o.OutputBytes, 8<<20)
}
