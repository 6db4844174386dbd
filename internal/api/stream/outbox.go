package stream

import (
	"context"
	"sync"

	"github.com/belljar/belljar"
)

// Bounds of what waits in an outbox. A single message may be longer than batchBytes.
const (
	batchBytes    = 64 << 10
	batchMessages = 128
)

// message is one frame on its way to a reader.
type message struct {
	seq   uint64
	kind  belljar.FrameType
	event string // of an event
	note  bool   // borrows its seq
	data  []byte // the envelope, or the plain output; not to be changed
	loan  *loan  // where data goes back to; nil if it does not
}

// outbox is what lies between who reads a log and who writes to its reader: while a batch is being written the next one
// gathers, so that many small frames cost one system call. put waits when it is full.
type outbox struct {
	mu    sync.Mutex
	items []message
	bytes int
	over  bool  // nothing more comes
	err   error // why, if not because the log is at its end

	ready chan struct{} // has a token when there is something to take
	space chan struct{} // has a token when something was taken
}

func newOutbox() *outbox {
	return &outbox{ready: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// put adds a message and waits until there is room for it; false if ctx ends before that.
func (o *outbox) put(ctx context.Context, m message) bool {
	size := cap(m.data)
	for {
		o.mu.Lock()
		if len(o.items) == 0 || len(o.items) < batchMessages && o.bytes+size <= batchBytes {
			o.items = append(o.items, m)
			o.bytes += size
			o.mu.Unlock()
			signal(o.ready)
			return true
		}
		o.mu.Unlock()
		select {
		case <-o.space:
		case <-ctx.Done():
			return false
		}
	}
}

// finish says that nothing more comes, and why.
func (o *outbox) finish(err error) {
	o.mu.Lock()
	o.over, o.err = true, err
	o.mu.Unlock()
	signal(o.ready)
}

// take returns what has gathered, in spare if it has room, and whether more can come. Whoever takes waits for ready first.
func (o *outbox) take(spare []message) (items []message, over bool, err error) {
	o.mu.Lock()
	items, o.items, o.bytes = o.items, spare[:0], 0
	over, err = o.over, o.err
	o.mu.Unlock()
	if len(items) > 0 {
		signal(o.space)
	}
	return items, over, err
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
