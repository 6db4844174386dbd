package stream

import (
	"errors"
	"net"
	"sync"
	"time"
)

// controlBytes bounds the pongs that wait while the reader does not take a message.
const controlBytes = 4 << 10

// errFlood ends a connection whose reader sends pings but reads nothing.
var errFlood = errors.New("reader takes nothing")

// wire is the network connection of a WebSocket. The WebSocket library writes each message separately, under a lock for all
// messages. A wire sends the messages of a batch in one write, and meanwhile queues the pongs, so that they do not wait for the
// lock.
type wire struct {
	net.Conn
	timeout time.Duration // the reader is slow if a batch takes longer
	grace   time.Duration // the extra time until the connection is cut
	onSlow  func()        // called once when the reader is slow
	buffers *bufferPool

	mu       sync.Mutex
	idle     sync.Cond
	buf      []byte  // to be sent next
	pooled   *pooled // of buf
	batching bool    // a batch is being gathered
	sending  bool
	slow     bool
	deadline time.Time // of all writes; zero is none
	err      error
	sent     int64
}

func newWire(conn net.Conn, timeout, grace time.Duration, buffers *bufferPool, onSlow func()) *wire {
	w := &wire{Conn: conn, timeout: timeout, grace: grace, buffers: buffers, onSlow: onSlow}
	w.idle.L = &w.mu
	return w
}

// startBatch starts a batch of about n bytes.
func (w *wire) startBatch(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batching = true
	if w.buf == nil && n >= smallBytes {
		w.pooled = w.buffers.get()
		w.buf = w.pooled.buf
	}
}

// flush sends the batch and returns after the kernel has accepted it.
func (w *wire) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batching = false
	for w.sending {
		w.idle.Wait()
	}
	return w.drain()
}

// Write buffers what the WebSocket library writes. It also sends it, unless a batch is being gathered or sent.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return 0, w.err
	case w.sending && !w.batching && len(w.buf)+len(p) > controlBytes:
		return 0, errFlood
	}
	w.buf = append(w.buf, p...)
	if w.batching || w.sending {
		return len(p), nil
	}
	return len(p), w.drain()
}

// drain sends until the buffer is empty. The caller holds the lock, and no other goroutine is sending.
func (w *wire) drain() error {
	w.sending = true
	for len(w.buf) > 0 && w.err == nil {
		out, pooled := w.buf, w.pooled
		w.buf, w.pooled = nil, nil
		w.send(out)
		if pooled != nil {
			pooled.buf = out
			w.buffers.put(pooled)
		}
	}
	w.sending = false
	w.idle.Broadcast()
	return w.err
}

// send writes out. The caller holds the lock; send releases it during the write.
func (w *wire) send(out []byte) {
	deadline := time.Now().Add(w.timeout + w.grace)
	if !w.deadline.IsZero() && w.deadline.Before(deadline) {
		deadline = w.deadline
	}
	err := w.SetWriteDeadline(deadline)
	w.mu.Unlock()
	if err == nil {
		late := time.AfterFunc(w.timeout, w.markSlow)
		var n int
		n, err = w.Conn.Write(out)
		late.Stop()
		w.mu.Lock()
		w.sent += int64(n)
	} else {
		w.mu.Lock()
	}
	if err != nil && w.err == nil {
		w.err = err
	}
}

// markSlow records that the reader has not received a batch in time.
func (w *wire) markSlow() {
	w.mu.Lock()
	first := !w.slow && w.deadline.IsZero()
	w.slow = w.slow || first
	w.mu.Unlock()
	if first {
		w.onSlow()
	}
}

// isSlow reports whether the reader has not received a batch in time.
func (w *wire) isSlow() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slow
}

// busy reports whether a batch is being sent.
func (w *wire) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sending
}

// bytes returns how many bytes were sent.
func (w *wire) bytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// bound bounds the time of all later writes.
func (w *wire) bound(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	by := time.Now().Add(d)
	if w.deadline.IsZero() || by.Before(w.deadline) {
		w.deadline = by
		_ = w.SetWriteDeadline(by) // it fails only if the connection is closed
	}
}

// boundClose bounds the closing handshake.
func (w *wire) boundClose(d time.Duration) {
	w.bound(d)
	_ = w.SetReadDeadline(time.Now().Add(d)) // as above
}

// Close waits at most a second for what is being sent, and closes the connection, which resets itself if that was late ([api.NewListener]).
func (w *wire) Close() error {
	w.mu.Lock()
	if w.sending {
		w.mu.Unlock()
		w.bound(time.Second)
		w.mu.Lock()
		for w.sending {
			w.idle.Wait()
		}
	}
	if w.err == nil {
		w.err = net.ErrClosed
	}
	w.mu.Unlock()
	return w.Conn.Close()
}
