package audit

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

const (
	// mostLines is how many failed authentications, and how many events of each name of one user, have a line each in a minute. A client
	// or program causes them at little cost, and must neither fill the disk nor keep other events out of the queue.
	mostLines = 300
	// moreLines is how many further lines one user's events have in a minute, of all names together. Events at no cost at all have none.
	moreLines = 1000
	// manyMore is the reason in the line that counts the rest.
	manyMore = "many_more"
)

// bursts are the limited events of a minute.
type bursts struct {
	mu     sync.Mutex
	minute time.Time
	counts map[burst]*count
	most   bool // a count has reached mostLines
}

// burst is what one limit applies to. Failed authentications have no user, and what a user's events share has no name.
type burst struct{ name, user string }

// count is a number of events. rest of them have no line.
type count struct{ all, rest int }

// add counts an event, and reports whether it has a line. rest has the lines of the minute that the event ended.
func (b *bursts) add(e event.Event) (rest []event.Event, ok bool) {
	of, free := burst{e.Name, e.Caller.ID}, false
	switch e.Name {
	case event.AuthFailed:
		of.user, free = "", true
	case event.Denied, event.SessionResumed, event.EgressDenied:
		free = true
	default:
		if unlimited(e) {
			return nil, true
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rest = b.turn(e.Time)
	if b.next(of, mostLines) || !free && b.next(burst{user: of.user}, moreLines) {
		return rest, true
	}
	b.counts[of].rest++
	return rest, false
}

// unlimited reports whether every event like e has a line: operators are trusted, and a run or session costs a sandbox and has a record.
// Programs cause connections in their operator's name, and so do the visitors of previews.
func unlimited(e event.Event) bool {
	switch e.Name {
	case event.EgressAllowed, event.EgressNames, event.PortOpened, event.PortClosed:
		return false
	case event.SessionCreated, event.SessionEnded:
		return true
	}
	return e.Caller.Admin() || strings.HasPrefix(e.Name, "sandbox.run.")
}

// next counts an event of a burst, and reports whether it is one of the first. b.mu is held.
func (b *bursts) next(of burst, most int) bool {
	n := b.counts[of]
	if n == nil {
		n = &count{}
		b.counts[of] = n
	}
	n.all++
	b.most = b.most || n.all >= mostLines
	return n.all <= most
}

// full reports whether the minute may have events without a line.
func (b *bursts) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.most
}

// turn begins the minute of now, and returns the lines of the previous minute for events that had none. Events of the previous
// minute may arrive late. If the clock was set back further, that also begins a minute. b.mu is held.
func (b *bursts) turn(now time.Time) (rest []event.Event) {
	if minute := now.Truncate(time.Minute); minute.After(b.minute) || minute.Before(b.minute.Add(-time.Minute)) {
		rest = b.end()
		b.minute, b.counts = minute, map[burst]*count{}
	}
	return rest
}

// end ends the minute. b.mu is held.
func (b *bursts) end() (rest []event.Event) {
	for of, n := range b.counts {
		if n.rest > 0 {
			rest = append(rest, event.Event{
				Name: of.name, Time: b.minute, Caller: belljar.Caller{ID: of.user}, Reason: manyMore, Detail: map[string]string{"count": strconv.Itoa(n.rest)},
			})
		}
	}
	clear(b.counts)
	b.most = false
	return rest
}

// size is how many events a line stands for.
func size(e event.Event) int64 {
	if e.Reason != manyMore {
		return 1
	}
	n, _ := strconv.ParseInt(e.Detail["count"], 10, 64) // from end
	return n
}
