package client

import (
	"context"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// easyBytes is how much that the other side has not taken leaves room for a ping behind it, whatever lies between.
const easyBytes = 8 << 10

// pulse knows whether silence means something. Who is spoken to reads one message after the other, a ping in its turn, and
// a program that does not read its input holds all of them up: then no answer is to be expected.
type pulse struct {
	mu      sync.Mutex
	said    int // messages, begun and ended
	behind  int // bytes since the other side was last known to have taken everything
	writing int // messages on their way to the network
}

// begin notes that n bytes are being sent, and end that they were.
func (p *pulse) begin(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said++
	p.behind += n
	p.writing++
}

func (p *pulse) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said++
	p.writing--
}

// beat is a moment in which a ping can be sent: ok is false if it could get stuck. It is clear if nothing is in its way.
func (p *pulse) beat() (said int, clear, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said, p.behind == 0, p.writing == 0 && p.behind <= easyBytes
}

// still reports whether nothing was sent since a beat.
func (p *pulse) still(said int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said == said
}

// answered notes that what was sent before a beat was taken.
func (p *pulse) answered(said int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said == said {
		p.behind = 0
	}
}

// answers reports whether a ping of the other side is answered. An answer would wait behind what is being sent, which shows as
// well that somebody is here, and would end the connection if it waited for long.
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

// keepAlive gives up when the other end is gone without a word. While nobody reads, pings cannot be answered and are not
// sent; neither are they behind input that may be waiting for the program. Then the network has to tell.
func (l *link) keepAlive(ctx context.Context, give context.CancelCauseFunc) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		said, clear, ok := l.pulse.beat()
		if !ok || !l.reading.Load() {
			continue
		}
		pong := make(chan error, 1)
		go func() { pong <- l.Ping(ctx) }()
		late := time.NewTimer(pingEvery)
		var err error
		select {
		case err = <-pong:
		case <-late.C:
			if clear && l.pulse.still(said) && l.reading.Load() {
				give(errSilent) // which ends the ping, too
			}
			err = <-pong
		}
		late.Stop()
		switch {
		case err == nil:
			l.pulse.answered(said)
		case clear && l.pulse.still(said) && l.reading.Load():
			give(errSilent)
			return
		}
	}
}
