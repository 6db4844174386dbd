package metric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belljar/belljar/internal/event"
)

// upstreamMetrics count the events of connections to upstream servers.
type upstreamMetrics struct {
	request, ready *prometheus.HistogramVec
	failed, lost   *prometheus.CounterVec
}

func newUpstreamMetrics(to prometheus.Registerer) upstreamMetrics {
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sandbox_upstream_" + name, Help: help, Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sandbox_upstream_" + name, Help: help}, labels)
	}
	m := upstreamMetrics{
		request: histogram("request_duration_seconds", "Time until a server elsewhere began to answer, by status or by why there was none.", "upstream", "status"),
		ready:   histogram("ready_duration_seconds", "Time to find out whether a server elsewhere can be used, by why not.", "upstream", "reason"),
		failed:  counter("attach_failures_total", "Attempts to start a sandbox elsewhere, or to come back to one, that failed.", "reason"),
		lost:    counter("disconnects_total", "Connections to sandboxes elsewhere that were lost."),
	}
	to.MustRegister(m.request, m.ready, m.failed, m.lost)
	return m
}

func upstreams() vocabulary { return vocabulary{"workspace_service", "sprites_api", "belljar"} }

func upstreamReasons() vocabulary {
	return vocabulary{"auth", "unreachable", "bad_path", "version_mismatch", "refused"}
}

func (m upstreamMetrics) record(e event.Event) {
	name := upstreams().or(e.Component, other)
	switch e.Name {
	case event.UpstreamRequest:
		status := statusOf(e.Reason)
		if status == other {
			status = upstreamReasons().or(e.Reason, other)
		}
		m.request.WithLabelValues(name, status).Observe(e.Took.Seconds())
	case event.UpstreamReady:
		m.ready.WithLabelValues(name, upstreamReasons().or(e.Reason, "")).Observe(e.Took.Seconds())
	case event.UpstreamFailed:
		m.failed.WithLabelValues(upstreamReasons().or(e.Reason, other)).Inc()
	case event.UpstreamLost:
		m.lost.WithLabelValues().Inc()
	}
}
