package egress

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	maxAddrs  = 16              // of a name
	pinAtOnce = 32              // lookups
	failedFor = 5 * time.Second // pause before a failed name is tried again
)

// pin is the result of resolving a name. It does not change once done is closed.
type pin struct {
	done    chan struct{}
	addrs   []netip.Addr
	missing bool      // the name does not exist
	at      time.Time // of the failure, if addrs is empty
}

func (p *pin) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stale reports whether a pin is a failure that is old enough to retry.
func (p *pin) stale(now time.Time) bool { return len(p.addrs) == 0 && now.Sub(p.at) >= failedFor }

func (p *pin) reason() Reason {
	if len(p.addrs) == 0 {
		return DNSFailed
	}
	return ""
}

// Pin starts a run: it resolves the exact hosts of the rules again, and forgets the pins of other names. It records and denies a
// name that fails. The error is that of ctx.
func (g *Gate) Pin(ctx context.Context) error {
	g.nextRound()
	g.mu.Lock()
	maps.DeleteFunc(g.pins, func(_ string, p *pin) bool { return p.isDone() }) // lookups in progress are fresh
	work := make(chan string, len(g.policy.Run.exact))
	for host := range g.policy.Run.exact {
		if g.policy.serves(host) {
			work <- host
		}
	}
	g.mu.Unlock()
	close(work)

	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(g.waits.pin, cancel).Stop() // no deadline: a name that takes longer has not failed, and its first use retries it
	var wait sync.WaitGroup
	for range min(pinAtOnce, len(work)) {
		wait.Go(func() {
			for host := range work {
				if limited.Err() != nil {
					return
				}
				if reason := g.resolve(limited, host).reason(); reason != "" && limited.Err() == nil {
					g.deny(Event{Host: host, Reason: reason})
				}
			}
		})
	}
	wait.Wait()
	return ctx.Err()
}

// use counts a name that a program uses. g.mu is held.
func (g *Gate) use(v verdict) Reason {
	host := v.host
	if _, ok := g.used[host]; ok {
		return ""
	}
	if len(g.used) >= g.opts.Limits.Names {
		return Limit
	}
	if _, exact := g.policy.Run.exact[host]; !exact && !g.fresh.take(g.opts.Now(), g.opts.Limits.NewNames) {
		return Limit
	}
	g.used[host] = struct{}{}
	if strings.HasPrefix(v.rule, "*.") {
		g.below[v.rule]++
	}
	return ""
}

// pinned returns a pin that is available without waiting, or nil.
func (g *Gate) pinned(host string) *pin {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pins[host]
	if p == nil || !p.isDone() || p.stale(g.opts.Now()) {
		return nil
	}
	return p
}

// lookup resolves and pins a name that a program uses.
func (g *Gate) lookup(ctx context.Context, host string) *pin {
	ctx, cancel := context.WithTimeout(ctx, g.waits.name)
	defer cancel()
	return g.resolve(ctx, host)
}

// resolve returns the pin of a name. Several callers share one lookup, which continues when they stop waiting: a resolver whose
// first server is dead tries the next one after 5 s.
func (g *Gate) resolve(ctx context.Context, host string) *pin {
	g.mu.Lock()
	p := g.pins[host]
	if p == nil || p.isDone() && p.stale(g.opts.Now()) {
		p = &pin{done: make(chan struct{})}
		g.pins[host] = p
		go g.fill(host, p)
	}
	g.mu.Unlock()
	select {
	case <-p.done:
		return p
	case <-ctx.Done():
		return &pin{}
	}
}

// fill looks a name up.
func (g *Gate) fill(host string, p *pin) {
	ctx, cancel := context.WithTimeout(context.Background(), g.waits.lookup)
	defer cancel()
	found, err := g.opts.Resolver.LookupNetIP(ctx, "ip", host+".")
	var addrs []netip.Addr
	for _, ip := range found {
		if ip = ip.Unmap().WithZone(""); err == nil && ip.IsValid() && len(addrs) < maxAddrs {
			addrs = append(addrs, ip)
		}
	}
	var failure *net.DNSError
	g.mu.Lock()
	defer g.mu.Unlock()
	p.addrs, p.at = addrs, g.opts.Now()
	p.missing = errors.As(err, &failure) && failure.IsNotFound
	close(p.done)
}

// bucket limits a rate per second.
type bucket struct {
	level float64
	at    time.Time
}

func (b *bucket) take(now time.Time, rate int) bool {
	b.level = max(0, b.level-now.Sub(b.at).Seconds()*float64(rate))
	b.at = now
	if b.level+1 > float64(rate) {
		return false
	}
	b.level++
	return true
}
