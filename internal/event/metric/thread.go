package metric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belljar/belljar/internal/event"
)

// threadMetrics counts the events of the thread API by their names.
type threadMetrics struct {
	events, bytes *prometheus.CounterVec
	commands      *prometheus.HistogramVec
	workspace     prometheus.Histogram
}

// threadEvents returns the nine events of docs/compatibility.md#thread-api.
func threadEvents() vocabulary {
	return vocabulary{
		"session_created", "session_reused", "session_expired", "command_executed", "command_failed", "file_uploaded",
		"file_downloaded", "validation_failed", "resource_limit_exceeded",
	}
}

func newThreadMetrics(r *prometheus.Registry) threadMetrics {
	t := threadMetrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_thread_events_total", Help: "What happened at the thread API, by the name of its log event.",
		}, []string{"event"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_thread_bytes_total", Help: "Bytes of files that went through the thread API.",
		}, []string{"event"}),
		commands: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sandbox_thread_command_seconds", Help: "Time of commands at the thread API.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}, []string{"event"}),
		workspace: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sandbox_thread_workspace_bytes", Help: "Size of workspaces after uploads at the thread API.",
			Buckets: prometheus.ExponentialBuckets(4<<10, 8, 7), // to 1 GiB
		}),
	}
	r.MustRegister(t.events, t.bytes, t.commands, t.workspace)
	for _, name := range threadEvents() {
		t.events.WithLabelValues(name)
	}
	return t
}

func (t threadMetrics) record(e event.Event) {
	if e.Kind == event.ThreadWorkspace {
		t.workspace.Observe(float64(max(e.Count, 0)))
		return
	}
	name := threadEvents().or(e.Kind, other)
	t.events.WithLabelValues(name).Inc()
	switch name {
	case "file_uploaded", "file_downloaded":
		t.bytes.WithLabelValues(name).Add(float64(max(e.Count, 0)))
	case "command_executed", "command_failed":
		t.commands.WithLabelValues(name).Observe(e.Took.Seconds())
	}
}
