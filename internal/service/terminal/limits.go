package terminal

import (
	"cmp"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Limits bound the terminals in sessions. A field left zero is its default.
type Limits struct {
	// Reattach is how long a terminal without a client lives on; 0 is 15 min.
	Reattach time.Duration
	// Idle is how long one may neither print nor be typed to; 0 is 1 h, less than 0 is no bound.
	Idle time.Duration
	// Lifetime bounds its whole life; 0 is 24 h, less than 0 is no bound.
	Lifetime time.Duration
	// PerSession and PerUser are how many there may be; 0 is 8 and 32, less than 0 is no bound.
	PerSession, PerUser int
	// Attached is how many viewers one may have; 0 is 16.
	Attached int
	// History is how many bytes of output are kept for later viewers; 0 is 256 KiB, 512 KiB the most.
	History int
	// Queue is how many bytes wait for one viewer; 0 is 256 KiB.
	Queue int
	// ViewerTimeout is how long a single viewer may delay a terminal before it has taken half of its queue; 0 is 10 s. One of
	// several viewers may for a tenth of that.
	ViewerTimeout time.Duration
	// InputBytes and InputMessages are how much one viewer may type a second; 0 is 1 MiB and 500. A burst of one second
	// passes; more is slowed down.
	InputBytes, InputMessages int64
	// OutputBytes is how much a terminal prints in a second before its program has to wait; 0 is 8 MiB.
	OutputBytes int64
}

// Complete fills the fields that are left zero.
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
