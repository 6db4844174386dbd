package runtime

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// Link is the part of a sandbox whose agent is reached over one connection, which can be lost and restored: it dials, and knows how the
// sandbox ended. Make one with [NewLink]. It is safe for concurrent use.
type Link struct {
	closed, away error

	gone chan struct{}
	exit Exit // valid once gone is closed
	left chan struct{}

	mu      sync.Mutex
	over    Dialer        // nil while there is no connection
	changed chan struct{} // closed when over changes
}

// Dialer opens streams to an agent.
type Dialer interface {
	Dial(ctx context.Context) (net.Conn, error)
}

// NewLink returns a link without a connection. Dial and Wait return closed when the runtime no longer follows the sandbox, and away when a
// connection is not restored in time.
func NewLink(closed, away error) *Link {
	return &Link{closed: closed, away: away, gone: make(chan struct{}), left: make(chan struct{}), changed: make(chan struct{})}
}

// Connect sets the connection for later dials; nil for none.
func (l *Link) Connect(over Dialer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = over
	close(l.changed)
	l.changed = make(chan struct{})
}

// End sets how the sandbox has ended. It is called once.
func (l *Link) End(exit Exit) {
	l.exit = exit
	close(l.gone)
}

// Leave marks that the runtime no longer follows the sandbox, which may live on. It is called once.
func (l *Link) Leave() { close(l.left) }

// Gone returns a channel that is closed when the sandbox has ended.
func (l *Link) Gone() <-chan struct{} { return l.gone }

// Left returns a channel that is closed when the runtime no longer follows the sandbox.
func (l *Link) Left() <-chan struct{} { return l.left }

// Exit returns how the sandbox has ended; nil if it has not.
func (l *Link) Exit() *Exit {
	select {
	case <-l.gone:
		return &l.exit
	default:
		return nil
	}
}

// Dial implements [Sandbox]. Without a connection it waits for one.
func (l *Link) Dial(ctx context.Context) (net.Conn, error) {
	for {
		l.mu.Lock()
		over, changed := l.over, l.changed
		l.mu.Unlock()
		if over != nil {
			if conn, err := over.Dial(ctx); err == nil || ctx.Err() != nil {
				return conn, err
			}
		}
		if l.Exit() != nil {
			return nil, ErrGone
		}
		select {
		case <-changed:
		case <-l.gone:
		case <-l.left:
			return nil, l.closed
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", l.away, context.Cause(ctx))
		}
	}
}

// Wait implements [Sandbox].
func (l *Link) Wait(ctx context.Context) (Exit, error) {
	if exit := l.Exit(); exit != nil {
		return *exit, nil
	}
	select {
	case <-l.gone:
		return l.exit, nil
	case <-l.left:
		return Exit{}, l.closed
	case <-ctx.Done():
		return Exit{}, ctx.Err()
	}
}
