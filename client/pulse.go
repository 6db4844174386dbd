package client

import (
	"context"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// maxUnread is how many unread bytes still leave room for a ping in the buffers of the connection.
const maxUnread = 8 << 10

// pulse tracks whether a missing pong means that the connection is dead. The server reads messages in order, pings
// included, and stops reading while the program does not read its input: then it sends no pong.
type pulse struct {
	mu       sync.Mutex
	messages int // counts starts and ends of messages
	unread   int // bytes that the server may not have read
	writing  int // messages that are being written
}

// begin records the start of a message of n bytes, and end its end.
func (p *pulse) begin(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages++
	p.unread += n
	p.writing++
}

func (p *pulse) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages++
	p.writing--
}

// check reports whether a ping can be sent without blocking (ok), and whether a pong must then arrive in time (clear).
// Pass messages to still and answered.
func (p *pulse) check() (messages int, clear, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.messages, p.unread == 0, p.writing == 0 && p.unread <= maxUnread
}

// still reports whether nothing was sent since a check.
func (p *pulse) still(messages int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.messages == messages
}

// answered records that the server has read everything sent before a check.
func (p *pulse) answered(messages int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.messages == messages {
		p.unread = 0
	}
}

// answers reports whether to send a pong. During a write it would have to wait and might end the connection by its
// timeout; the write itself shows that the client is alive.
func (p *pulse) answers(context.Context, []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writing == 0
}

// say sends a message.
func (l *link) say(ctx context.Context, kind websocket.MessageType, raw []byte) error {
	l.pulse.begin(len(raw))
	defer l.pulse.end()
	return l.Write(ctx, kind, raw)
}

// keepAlive cancels the connection if the server is gone. It sends no ping while the client does not read, which could not
// receive the pong, or while input may be waiting for the program. Then only TCP can detect a dead connection.
func (l *link) keepAlive(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		messages, clear, ok := l.pulse.check()
		if !ok || !l.reading.Load() {
			continue
		}
		pong := make(chan error, 1)
		go func() { pong <- l.Ping(ctx) }()
		var err error
		select {
		case err = <-pong:
		case <-time.After(pingEvery):
			if clear && l.pulse.still(messages) && l.reading.Load() {
				cancel(errSilent) // ends the ping, too
			}
			err = <-pong
		}
		switch {
		case err == nil:
			l.pulse.answered(messages)
		case clear && l.pulse.still(messages) && l.reading.Load():
			cancel(errSilent)
			return
		}
	}
}
