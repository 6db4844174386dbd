package pool

import (
	"maps"
	"time"
)

// Why a ready sandbox was dropped, as [Stats].Drops counts them.
const (
	dropDied      = "died"      // it ended by itself, or was ended
	dropBroken    = "broken"    // its agent did not answer
	dropUnusable  = "unusable"  // it was taken, and could not become the caller's
	dropAged      = "aged"      // it was as old as [Options].MaxAge
	dropIdle      = "idle"      // its kind was not asked for
	dropDisplaced = "displaced" // another kind, or a sandbox that a caller waited for, needed its room
	dropClosed    = "closed"
)

// Stats is what a pool holds, and has done so far.
type Stats struct {
	Size      int // sandboxes that it would like to hold ready
	Ready     int // that it holds ready
	Kinds     int // that it knows
	Hits      uint64
	Misses    uint64 // sandboxes that were made cold
	Births    uint64 // sandboxes that were made ahead
	BirthTime time.Duration
	Failures  uint64            // births that failed
	Drops     map[string]uint64 // by why; every reason is there
}

func newStats() Stats {
	s := Stats{Drops: map[string]uint64{}}
	for _, why := range []string{dropDied, dropBroken, dropUnusable, dropAged, dropIdle, dropDisplaced, dropClosed} {
		s.Drops[why] = 0
	}
	return s
}

// Stats returns the pool's figures.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Drops = maps.Clone(s.Drops)
	s.Kinds = len(p.kinds)
	s.Size = min(len(p.ranked())*p.opts.Size, p.opts.Max)
	for _, k := range p.kinds {
		s.Ready += len(k.ready)
	}
	return s
}
