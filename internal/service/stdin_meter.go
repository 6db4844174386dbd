package service

import "time"

// patienceForRate is for how long a sender may be over its rate, slowed down to it, before that is a violation.
const patienceForRate = time.Second

// meter is a token bucket that holds what is allowed in one second, and begins full. What it lets wait runs up a debt
// that the following frames wait for too.
type meter struct {
	perSecond float64

	tokens float64 // below zero: debt
	filled time.Time
	waited time.Duration // by how much senders have been slowed since the bucket last had enough
}

// take takes n tokens and says after how long they are there. It refuses a sender who has been slowed for longer than
// patienceForRate without a pause.
func (m *meter) take(n int, now time.Time) (wait time.Duration, ok bool) {
	if m.filled.IsZero() {
		m.tokens = m.perSecond
	} else {
		m.tokens = min(m.perSecond, m.tokens+m.perSecond*now.Sub(m.filled).Seconds())
	}
	m.filled = now
	m.tokens -= float64(n)
	if m.tokens >= 0 {
		m.waited = 0
		return 0, true
	}
	wait = time.Duration(-m.tokens / m.perSecond * float64(time.Second))
	m.waited += wait
	return wait, m.waited <= patienceForRate
}
