package session

import (
	"context"
	"time"

	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/store"
)

// usageTime bounds the reading of a sandbox's usage. negligible is the cost of maintaining an idle one for a while.
const (
	usageTime  = 2 * time.Second
	negligible = 0.01 // CPU seconds
)

// bill charges the session's owner for usage of its sandbox that no run was charged for, for example in the background or at a
// terminal.
func bill(ctx context.Context, x *Session, b *box.Box) {
	reading, cancel := context.WithTimeout(ctx, usageTime)
	b.Shared.Now(reading, b)
	cancel()
	c := b.Shared.Charge(b.Network, 0)
	if c.EgressBytes == 0 && c.CPUSeconds < negligible {
		b.Shared.Restore(c) // the next bill includes it
		return
	}
	if !charge(ctx, x, c) {
		b.Shared.Restore(c)
	}
}

// charge charges the session's owner, and reports whether that is on record.
func charge(ctx context.Context, x *Session, c store.Charge) bool {
	s := x.all
	err := s.opts.Accounts.Users.Charge(context.WithoutCancel(ctx), x.caller.ID, c, s.now())
	if err != nil {
		s.opts.Log.Warn("what a session has used cannot be recorded", "session_id", x.id, "err", err)
	}
	return err == nil
}

// destroy destroys the session's sandbox, and charges for its last usage.
func (x *Session) destroy(b *box.Box) {
	b.Network.Close()
	bill(context.Background(), x, b)
	x.all.opts.Boxes.Destroy(x.id, b)
}
