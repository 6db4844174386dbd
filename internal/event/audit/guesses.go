package audit

import (
	"strconv"
	"time"

	"github.com/belljar/belljar/internal/event"
)

const (
	// mostFailures is how many failed authentications of a minute have a line each. Anyone can cause them, without a credential, and
	// must not fill the disk.
	mostFailures = 300
	// manyMore is the reason in the line that counts the others.
	manyMore = "many_more"
)

// guesses are the failed authentications of a minute.
type guesses struct {
	minute time.Time
	count  int
}

// turn begins the minute of now, and returns the line of the one before if some of that had none. Events of the minute before may come
// late; a clock that was set back further begins a minute, too.
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
