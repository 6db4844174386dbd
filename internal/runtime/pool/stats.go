package pool

import (
	"maps"
	"time"
)

// Reasons why a ready sandbox was dropped, as [Stats].Drops counts them.
const (
	dropDied      = "died"      // it ended, for whatever reason
	dropBroken    = "broken"    // its agent did not answer
	dropUnusable  = "unusable"  // a claim of it failed
	dropAged      = "aged"      // it was as old as [Options].MaxAge
	dropIdle      = "idle"      // its kind was not requested
	dropDisplaced = "displaced" // another kind, or a waiting caller's sandbox, needed its room
	dropClosed    = "closed"
)

// Stats are the figures of a pool: its present state and its counters.
type Stats struct {
	Size      int // sandboxes that it aims to keep ready
	Ready     int // sandboxes that are ready
	Kinds     int // kinds that it knows
	Hits      uint64
	Misses    uint64 // sandboxes that were made cold
	Births    uint64 // sandboxes that were made in advance
	BirthTime time.Duration
	Failures  uint64            // births that failed
	Drops     map[string]uint64 // by reason; every reason is present
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
