package audit

import (
	"strconv"
	"time"

	"github.com/belljar/belljar/internal/event"
)

const (
	// mostFailures is how many failed authentications in a minute have a line each. Any client can cause them, without a credential,
	// and must not fill the disk.
	mostFailures = 300
	// manyMore is the reason in the line that counts the rest.
	manyMore = "many_more"
)

// guesses are the failed authentications of a minute.
type guesses struct {
	minute time.Time
	count  int
}

// turn begins the minute of now, and returns the line of the previous minute if some of its events had none. Events of the previous
// minute may arrive late. If the clock was set back further, that also begins a minute.
func (g *guesses) turn(now time.Time) (rest event.Event, more bool) {
	if minute := now.Truncate(time.Minute); minute.After(g.minute) || minute.Before(g.minute.Add(-time.Minute)) {
		rest, more = g.end()
		g.minute = minute
	}
	return rest, more
}

// end ends the minute.
func (g *guesses) end() (rest event.Event, more bool) {
	n := g.count - mostFailures
	g.count = 0
	return event.Event{Name: event.AuthFailed, Time: g.minute, Reason: manyMore, Detail: map[string]string{"count": strconv.Itoa(n)}}, n > 0
}
