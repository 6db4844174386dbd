package egress

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"

	"github.com/belljar/belljar"
)

const (
	maxHosts    = 100 // in a report, and for the denials that a run records
	maxRows     = 512 // rows of a gate, separately for allowed and denied hosts; new denials replace those of earlier rounds
	maxRecorded = 1000
)

// Event is an allowed connection, or a denied connection or name.
type Event struct {
	Allowed  bool
	Host     string
	IP       netip.Addr // the dialled address; invalid if none was
	Port     uint16     // 0 for a name
	Rule     string
	Reason   Reason // the reason of a denial; Unreachable for an allowed connection whose dial failed
	BytesIn  int64
	BytesOut int64
}

// row counts one host, with the rule that allowed it or the reason of the denial.
type row struct {
	rowKey
	ip      netip.Addr
	events  int
	round   int // in which it was last recorded
	in, out atomic.Int64
}

type rowKey struct {
	host, rule string
	reason     Reason
	allowed    bool
}

// tally counts a gate's decisions. It bounds everything that a hostile program can increase, and denials cannot displace allowed
// hosts.
type tally struct {
	record, count func(Event)

	mu       sync.Mutex
	rows     map[rowKey]*row
	order    []*row
	kinds    map[bool]int // number of rows, by whether the host is allowed
	totals   map[bool]int // number of events, likewise
	round    int
	recorded map[bool]int // in this round
}

func newTally(record, count func(Event)) *tally {
	return &tally{record: record, count: count, rows: map[rowKey]*row{}, kinds: map[bool]int{}, totals: map[bool]int{}, round: 1, recorded: map[bool]int{}}
}

// nextRound allows everything to be recorded again.
func (t *tally) nextRound() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
	clear(t.recorded)
}

// deny counts a denial.
func (t *tally) deny(e Event) {
	t.add(e)
	if t.count != nil {
		t.count(e)
	}
}

// allow counts a connection. It returns the row of its bytes.
func (t *tally) allow(e Event) *row {
	if r := t.add(e); r != nil {
		return r
	}
	return new(row)
}

func (t *tally) add(e Event) *row {
	e.Host = printable(e.Host)
	r, record := t.note(e)
	if record && t.record != nil {
		t.record(e)
	}
	return r
}

// note counts an event, and reports whether to record it.
func (t *tally) note(e Event) (r *row, record bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := rowKey{e.Host, e.Rule, e.Reason, e.Allowed}
	r = t.rows[key]
	if r == nil && (t.kinds[e.Allowed] < maxRows || !e.Allowed && t.evict()) {
		r = &row{rowKey: key}
		t.rows[key] = r
		t.order = append(t.order, r)
		t.kinds[e.Allowed]++
	}
	t.totals[e.Allowed]++
	record = e.Allowed
	if r != nil {
		r.events++
		record = r.round != t.round
		r.round = t.round
		if e.IP.IsValid() {
			r.ip = e.IP
		}
	}
	most := maxHosts
	if e.Allowed {
		most = maxRecorded
	}
	if !record || t.recorded[e.Allowed] >= most {
		return r, false
	}
	t.recorded[e.Allowed]++
	return r, true
}

// evict removes the oldest denied row that this round has not used, and reports whether there was one. The caller holds mu.
func (t *tally) evict() bool {
	i := slices.IndexFunc(t.order, func(r *row) bool { return !r.allowed && r.round != t.round })
	if i < 0 {
		return false
	}
	delete(t.rows, t.order[i].rowKey)
	t.order = slices.Delete(t.order, i, i+1)
	t.kinds[false]--
	return true
}

// printable returns a host in a form that is safe in a report: an agent can send any name.
func printable(host string) string {
	if len(host) > maxName {
		host = host[:maxName] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, host)
}

// Mark is the state of a gate's counters at some time.
type Mark struct {
	allowed, denied int
	in, out         int64
	rows            map[*row]counts
	below           map[string]int
}

type counts struct {
	events  int
	in, out int64
}

// Mark returns the state of the counters.
func (g *Gate) Mark() Mark {
	g.mu.Lock()
	below := maps.Clone(g.below)
	g.mu.Unlock()
	t := g.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	m := Mark{allowed: t.totals[true], denied: t.totals[false], in: g.in.Load(), out: g.out.Load(), rows: make(map[*row]counts, len(t.order)), below: below}
	for _, r := range t.order {
		m.rows[r] = counts{r.events, r.in.Load(), r.out.Load()}
	}
	return m
}

// Bytes returns the bytes that the gate has carried, in both directions together.
func (g *Gate) Bytes() int64 { return g.in.Load() + g.out.Load() }

// Report returns everything that the gate has counted.
func (g *Gate) Report() belljar.EgressReport { return g.Since(Mark{}) }

// Since returns what the gate has counted since a mark. Allowed hosts come first, each kind in order of first appearance.
func (g *Gate) Since(m Mark) belljar.EgressReport {
	now := g.Mark()
	report := belljar.EgressReport{
		Allowed: now.allowed - m.allowed, Denied: now.denied - m.denied, BytesIn: now.in - m.in, BytesOut: now.out - m.out,
		Hosts: []belljar.EgressHost{},
	}
	t := g.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, allowed := range []bool{true, false} {
		for _, r := range t.order {
			n, before := now.rows[r], m.rows[r]
			if n.events == 0 {
				continue // newer than now
			}
			n.events -= before.events
			n.in -= before.in
			n.out -= before.out
			if r.allowed != allowed || n == (counts{}) || len(report.Hosts) == maxHosts {
				continue
			}
			h := belljar.EgressHost{Host: r.host, Rule: r.rule, Reason: string(r.reason), BytesIn: n.in, BytesOut: n.out}
			if r.ip.IsValid() {
				h.IP = r.ip.String()
			}
			if allowed {
				h.Allowed = n.events
			} else {
				h.Denied = n.events
			}
			report.Hosts = append(report.Hosts, h)
		}
	}
	return report
}

// Names is the number of different names under a wildcard that programs have used.
type Names struct {
	Rule  string // *.example.com
	Count int
}

// manyNames is the number of names from which ManyNames reports a wildcard. Each lookup can reveal a text of the program's choice to
// the owner of the wildcard's domain.
const manyNames = 32

// ManyNames returns the wildcards, in order, under which programs have used at least manyNames new names since a mark.
func (g *Gate) ManyNames(since Mark) (list []Names) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for rule, n := range g.below {
		if n -= since.below[rule]; n >= manyNames {
			list = append(list, Names{rule, n})
		}
	}
	slices.SortFunc(list, func(a, b Names) int { return cmp.Compare(a.Rule, b.Rule) })
	return list
}
