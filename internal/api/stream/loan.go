package stream

import "sync"

// Sizes of the buffers that are lent. Anything smaller than smallBytes is not worth it.
const (
	smallBytes = 2 << 10
	loanBytes  = 72 << 10 // a whole message of 64 KB, or a batch of smaller ones with their heads
)

// loan is a buffer that goes back when it has been written.
type loan struct{ buf []byte }

// lender has buffers for frames and batches, so that a connection without traffic has none.
type lender struct{ pool sync.Pool }

// lend returns an empty buffer with room for any message.
func (l *lender) lend() *loan {
	if b, ok := l.pool.Get().(*loan); ok {
		b.buf = b.buf[:0]
		return b
	}
	return &loan{make([]byte, 0, loanBytes)}
}

// back takes a buffer back; nil is none.
func (l *lender) back(b *loan) {
	if b != nil && cap(b.buf) <= 2*loanBytes {
		l.pool.Put(b)
	}
}
