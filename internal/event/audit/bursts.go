package audit

import (
	"strconv"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

const (
	// mostLines is how many failed authentications, and how many denied requests and reopened sessions of one user, have a line each in a
	// minute. A client causes them at no cost, and must neither fill the disk nor keep other events out of the queue.
	mostLines = 300
	// manyMore is the reason in the line that counts the rest.
	manyMore = "many_more"
)

// bursts are the events of a minute that cost a client nothing.
type bursts struct {
	mu     sync.Mutex
	minute time.Time
	counts map[burst]int
}

// burst is what one limit applies to. Failed authentications have no user.
type burst struct{ name, user string }

// add counts an event, and reports whether it has a line. rest has the lines of the minute that the event ended.
func (b *bursts) add(e event.Event) (rest []event.Event, ok bool) {
	of := burst{name: e.Name}
	switch e.Name {
	case event.AuthFailed:
	case event.Denied, event.SessionResumed:
		of.user = e.Caller.ID
	default:
		return nil, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rest = b.turn(e.Time)
	b.counts[of]++
	return rest, b.counts[of] <= mostLines
}

// full reports whether the minute may have events without a line.
func (b *bursts) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.counts {
		if n >= mostLines {
			return true
		}
	}
	return false
}

// turn begins the minute of now, and returns the lines of the previous minute for events that had none. Events of the previous
// minute may arrive late. If the clock was set back further, that also begins a minute. b.mu is held.
func (b *bursts) turn(now time.Time) (rest []event.Event) {
	if minute := now.Truncate(time.Minute); minute.After(b.minute) || minute.Before(b.minute.Add(-time.Minute)) {
		rest = b.end()
		b.minute, b.counts = minute, map[burst]int{}
	}
	return rest
}

// end ends the minute. b.mu is held.
func (b *bursts) end() (rest []event.Event) {
	for of, n := range b.counts {
		if n -= mostLines; n > 0 {
			rest = append(rest, event.Event{
				Name: of.name, Time: b.minute, Caller: belljar.Caller{ID: of.user}, Reason: manyMore, Detail: map[string]string{"count": strconv.Itoa(n)},
			})
		}
	}
	clear(b.counts)
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
