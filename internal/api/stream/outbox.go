package stream

import (
	"context"
	"sync"

	"github.com/belljar/belljar"
)

// Limits of an outbox. A single message may be longer than batchBytes.
const (
	batchBytes    = 64 << 10
	batchMessages = 128
)

// message is one encoded frame for a reader.
type message struct {
	seq    uint64
	kind   belljar.FrameType
	event  string  // of an event
	note   bool    // it is not in the log, and repeats a seq
	data   []byte  // the envelope, or the plain output; read only
	pooled *pooled // the buffer of data; nil if it is not pooled
}

// outbox is the queue between a feed and the writer of its connection. The next batch gathers while one is being written, so
// that many small frames cost one system call. put waits while the outbox is full.
type outbox struct {
	mu    sync.Mutex
	items []message
	bytes int
	over  bool  // no more messages will come
	err   error // the reason, unless it is the end of the log

	ready chan struct{} // has a token when there are messages, or over is set
	space chan struct{} // has a token when messages were taken
}

func newOutbox() *outbox {
	return &outbox{ready: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// put adds a message as soon as there is room for it; false if ctx ends first.
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

// finish ends the outbox: no more messages come.
func (o *outbox) finish(err error) {
	o.mu.Lock()
	o.over, o.err = true, err
	o.mu.Unlock()
	signal(o.ready)
}

// take returns the messages so far, and whether more can come. The caller waits for ready first. The outbox reuses spare.
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
