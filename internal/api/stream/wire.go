package stream

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/api"
)

const (
	// controlBytes is how much may wait behind a message that the reader does not take: answers to his pings.
	controlBytes = 4 << 10
	// kernelBytes is how much of a connection's output the kernel may hold.
	kernelBytes = 128 << 10
)

// errFlood ends a connection whose reader sends pings but takes nothing.
var errFlood = errors.New("reader takes nothing")

// wire is the network connection beneath a WebSocket. The WebSocket library writes every message by itself and locks
// out all other messages meanwhile; on a wire the messages of a batch are gathered and leave at once, and while that
// takes its time the answers to pings queue up behind instead of waiting for the lock.
type wire struct {
	net.Conn
	patience time.Duration // how long the reader may take over a batch until he is slow
	linger   time.Duration // how much longer he may take until the connection is cut
	onSlow   func()        // called once when he turns out to be slow
	lend     *lender

	mu      sync.Mutex
	idle    sync.Cond
	buf     []byte // what leaves next
	loan    *loan  // of buf
	holding bool   // a batch is being gathered
	sending bool
	slow    bool
	by      time.Time // when every write must be over; zero is never
	err     error
	sent    int64
}

func newWire(conn net.Conn, patience, linger time.Duration, lend *lender, onSlow func()) *wire {
	w := &wire{Conn: conn, patience: patience, linger: linger, lend: lend, onSlow: onSlow}
	w.idle.L = &w.mu
	if tcp := api.TCPOf(conn); tcp != nil {
		_ = tcp.SetWriteBuffer(kernelBytes) // only a bound on memory
	}
	return w
}

// hold begins a batch of about n bytes.
func (w *wire) hold(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holding = true
	if w.buf == nil && n >= smallBytes {
		w.loan = w.lend.lend()
		w.buf = w.loan.buf
	}
}

// flush sends the batch and returns when the kernel has it.
func (w *wire) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holding = false
	for w.sending {
		w.idle.Wait()
	}
	return w.drain()
}

// Write gathers what the WebSocket library writes. Unless a batch is being gathered or sent it sends it, too.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return 0, w.err
	case w.sending && !w.holding && len(w.buf)+len(p) > controlBytes:
		return 0, errFlood
	}
	w.buf = append(w.buf, p...)
	if w.holding || w.sending {
		return len(p), nil
	}
	return len(p), w.drain()
}

// drain sends until nothing is left. The caller holds the lock, and nobody else is sending.
func (w *wire) drain() error {
	w.sending = true
	for len(w.buf) > 0 && w.err == nil {
		out, loan := w.buf, w.loan
		w.buf, w.loan = nil, nil
		w.send(out)
		if loan != nil {
			loan.buf = out
			w.lend.back(loan)
		}
	}
	w.sending = false
	w.idle.Broadcast()
	return w.err
}

// send writes out. The caller holds the lock; it is free while the network takes its time.
func (w *wire) send(out []byte) {
	deadline := time.Now().Add(w.patience + w.linger)
	if !w.by.IsZero() && w.by.Before(deadline) {
		deadline = w.by
	}
	err := w.SetWriteDeadline(deadline)
	w.mu.Unlock()
	if err == nil {
		late := time.AfterFunc(w.patience, w.tooSlow)
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

// tooSlow notes that the reader has not taken a batch in time.
func (w *wire) tooSlow() {
	w.mu.Lock()
	first := !w.slow && w.by.IsZero()
	w.slow = w.slow || first
	w.mu.Unlock()
	if first {
		w.onSlow()
	}
}

// isSlow reports whether the reader has not taken a batch in time.
func (w *wire) isSlow() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slow
}

// busy reports whether something is being sent.
func (w *wire) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sending
}

// bytes is how much was sent.
func (w *wire) bytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// hurry bounds all that is still to be written.
func (w *wire) hurry(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	by := time.Now().Add(d)
	if w.by.IsZero() || by.Before(w.by) {
		w.by = by
		_ = w.SetWriteDeadline(by) // a connection that is closed needs none
	}
}

// part bounds the exchange of last words.
func (w *wire) part(d time.Duration) {
	w.hurry(d)
	_ = w.SetReadDeadline(time.Now().Add(d)) // as above
}

// Close lets what is being sent leave, for a second at most, and closes the connection. A reader who would not take it
// is cut off, so that the kernel does not go on trying.
func (w *wire) Close() error {
	w.mu.Lock()
	if w.sending {
		w.mu.Unlock()
		w.hurry(time.Second)
		w.mu.Lock()
		for w.sending {
			w.idle.Wait()
		}
	}
	if w.err == nil {
		w.err = net.ErrClosed
	} else if tcp := api.TCPOf(w.Conn); tcp != nil {
		_ = tcp.SetLinger(0)
	}
	w.mu.Unlock()
	return w.Conn.Close()
}
