package metric

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Pool holds the figures of a runtime's pool of ready sandboxes.
type Pool struct {
	Size, Ready, Kinds int
	Hits, Misses       uint64
	Births             uint64
	BirthTime          time.Duration // sum over all births
	Failures           uint64
	Drops              map[string]uint64 // by reason; the set of reasons is small
}

// WatchPool adds the figures of a runtime's pool. Call it once for each runtime with a pool. It calls read at each
// scrape.
func (c *Counter) WatchPool(runtime string, read func() Pool) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sandbox_pool_"+name, help, labels, prometheus.Labels{"runtime": c.runtimes.or(runtime, other)})
	}
	c.registry.MustRegister(&poolCollector{
		read:      read,
		size:      desc("size", "Sandboxes that the pool tries to keep ready."),
		available: desc("available", "Sandboxes that are ready."),
		kinds:     desc("kinds", "Kinds of sandbox that were requested recently."),
		claims:    desc("claims_total", "Requested sandboxes: hit if one was ready, else miss.", "result"),
		refill:    desc("refill_seconds", "Time that it took to make a sandbox ready."),
		failures:  desc("refill_failures_total", "Sandboxes that could not be made ready."),
		drops:     desc("drops_total", "Ready sandboxes that were not used.", "reason"),
	})
}

// poolCollector reads a pool's figures at each scrape.
type poolCollector struct {
	read                                                    func() Pool
	size, available, kinds, claims, refill, failures, drops *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (p *poolCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.size, p.available, p.kinds, p.claims, p.refill, p.failures, p.drops} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (p *poolCollector) Collect(to chan<- prometheus.Metric) {
	now := p.read()
	gauge := func(d *prometheus.Desc, v int) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(p.size, now.Size)
	gauge(p.available, now.Ready)
	gauge(p.kinds, now.Kinds)
	counter(p.claims, now.Hits, "hit")
	counter(p.claims, now.Misses, "miss")
	to <- prometheus.MustNewConstHistogram(p.refill, now.Births, now.BirthTime.Seconds(), nil)
	counter(p.failures, now.Failures)
	for reason, n := range now.Drops {
		counter(p.drops, n, reason)
	}
}
