package stdin

import "time"

// maxDelay is how long a sender may be slowed down to the rate before that is a violation.
const maxDelay = time.Second

// meter is a token bucket of one second, full at first. A frame that waits leaves a debt that later frames wait for too.
type meter struct {
	perSecond float64

	tokens float64 // below zero: debt
	filled time.Time
	waited time.Duration // total delay since the bucket last had enough tokens
}

// take takes n tokens and returns how long to wait for them. It is not ok once senders have been delayed for longer than
// maxDelay without a pause.
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
	return wait, m.waited <= maxDelay
}
