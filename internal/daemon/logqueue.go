package daemon

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	queuedLines = 1024        // a busy second
	flushTime   = time.Second // for a reader that does not read, when the server ends
)

// logQueue writes the messages of a server in the background, so that a reader that stops reading, such as a terminal after Ctrl-S, stops
// nothing else. It drops and counts lines for which the queue has no room.
type logQueue struct {
	to   io.Writer
	done chan struct{} // closed when everything is written

	mu    sync.Mutex
	lines chan []byte // nil after Close
	lost  int
}

func newLogQueue(to io.Writer) *logQueue {
	q := &logQueue{to: to, done: make(chan struct{}), lines: make(chan []byte, queuedLines)}
	go q.copy(q.lines)
	return q
}

// copy writes the lines until Close.
func (q *logQueue) copy(lines <-chan []byte) {
	defer close(q.done)
	for line := range lines {
		_, _ = q.to.Write(line)
	}
	q.mu.Lock()
	lost := q.lost
	q.mu.Unlock()
	if lost > 0 {
		_, _ = q.to.Write(lossOf(lost))
	}
}

// Write queues a line. It never blocks, and never fails.
func (q *logQueue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost > 0 && q.put(lossOf(q.lost)) {
		q.lost = 0
	}
	if q.lost > 0 || !q.put(bytes.Clone(line)) {
		q.lost++
	}
	return len(line), nil
}

func (q *logQueue) put(line []byte) bool {
	select {
	case q.lines <- line:
		return true
	default:
		return false
	}
}

func lossOf(lines int) []byte {
	return fmt.Appendf(nil, "belljar: %d lines of the log were lost: its reader stopped reading\n", lines)
}

// Close writes the queued lines, for at most the given time. Later lines are dropped.
func (q *logQueue) Close(within time.Duration) {
	q.mu.Lock()
	lines := q.lines
	q.lines = nil
	q.mu.Unlock()
	close(lines)
	select {
	case <-q.done:
	case <-time.After(within):
	}
}

// queued returns the host with its messages queued, and what ends the queue.
func (h *Host) queued() (_ *Host, flush func()) {
	q := newLogQueue(h.Stderr)
	twin := *h
	twin.Writer.Stderr = q
	return &twin, func() { q.Close(flushTime) }
}
