package stream

import "sync"

// Sizes of pooled buffers. Data of less than smallBytes does not use the pool.
const (
	smallBytes  = 2 << 10
	bufferBytes = 72 << 10 // a message of 64 KB, or a batch of smaller ones with their headers
)

// pooled is a buffer of a pool.
type pooled struct{ buf []byte }

// bufferPool has buffers for frames and batches, so that a connection without traffic holds none.
type bufferPool struct{ pool sync.Pool }

// get returns an empty buffer with room for any message.
func (p *bufferPool) get() *pooled {
	if b, ok := p.pool.Get().(*pooled); ok {
		b.buf = b.buf[:0]
		return b
	}
	return &pooled{make([]byte, 0, bufferBytes)}
}

// put returns a buffer to the pool. b may be nil.
func (p *bufferPool) put(b *pooled) {
	if b != nil && cap(b.buf) <= 2*bufferBytes {
		p.pool.Put(b)
	}
}
