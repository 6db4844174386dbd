// Package metric counts events for Prometheus and for admin/metrics: the metrics of docs/compatibility.md#metrics with their
// names and labels, and a few of Belljar's own. No label has a value that a caller can choose freely.
package metric

import (
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belljar/belljar/internal/event"
)

// Options configure a counter.
type Options struct {
	Version, Commit string   // of this build
	Runtimes        []string // names that the label runtime may have; others count as "other"
}

// Counter counts events. Create one with [New]; it is safe for concurrent use.
type Counter struct {
	registry *prometheus.Registry
	runtimes vocabulary
	routes   *routes
	live     *tracker
	m        metrics
	thread   threadMetrics
	upstream upstreamMetrics
}

var _ event.Sink = (*Counter)(nil)

// metrics groups the metrics by what they count.
type metrics struct {
	sessionsCreated, runsStarted, runsCompleted                    *prometheus.CounterVec
	sessionsResumed, sessionsEnded, hibernations                   *prometheus.CounterVec
	terminalsOpened, terminalsEnded, terminalsRefused              *prometheus.CounterVec
	contextsCreated, contextsEnded                                 *prometheus.CounterVec
	queueFull, queueExpired                                        *prometheus.CounterVec
	uploadBytes, uploadFiles, logBytes, logTruncations, warmStarts *prometheus.CounterVec
	opened, heartbeats, disconnects, drops                         *prometheus.CounterVec
	requests, authFailures, denials                                *prometheus.CounterVec
	egressConnections, egressBytes                                 *prometheus.CounterVec
	approvalDecisions, approvalHooks                               *prometheus.CounterVec
	approvalsPending                                               *prometheus.GaugeVec
	duration, queueWait, startLatency, requestDuration             *prometheus.HistogramVec
	sessionLife, workspaceReady                                    *prometheus.HistogramVec
	workspaceFailures                                              *prometheus.CounterVec
	runs, sessions                                                 *prometheus.GaugeVec
}

// New returns a counter with a registry of its own.
func New(opts Options) *Counter {
	c := &Counter{
		registry: prometheus.NewRegistry(), runtimes: vocabulary(opts.Runtimes), routes: newRoutes(), live: newTracker(),
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sandbox_" + name, Help: help}, labels)
		c.registry.MustRegister(v)
		return v
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sandbox_" + name, Help: help}, labels)
		c.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sandbox_" + name, Help: help,
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 3600},
		}, labels)
		c.registry.MustRegister(v)
		return v
	}
	c.m = metrics{
		sessionsCreated:   counter("sessions_created_total", "Sessions created.", "runtime"),
		sessionsResumed:   counter("sessions_resumed_total", "Sessions found again by their scope.", "runtime"),
		sessionsEnded:     counter("sessions_ended_total", "Sessions that ended.", "runtime", "state"),
		hibernations:      counter("session_hibernations_total", "Sessions that gave their sandbox up (hibernated), and that were given one again (woken).", "runtime", "kind"),
		sessionLife:       histogram("session_lifetime_seconds", "Time from a session's making to its end.", "runtime"),
		workspaceReady:    histogram("workspace_ready_seconds", "Time until the workspace of a request was ready.", "mode"),
		workspaceFailures: counter("workspace_failures_total", "Requests whose workspace was not ready, by the code of the error.", "mode", "reason"),
		terminalsOpened:   counter("terminals_opened_total", "Terminals opened.", "runtime"),
		terminalsEnded:    counter("terminals_ended_total", "Terminals that ended, by how.", "reason"),
		terminalsRefused:  counter("terminal_attach_failures_total", "Attempts to open a terminal, or to come back to one, that failed.", "reason"),
		contextsCreated:   counter("contexts_created_total", "Contexts created.", "runtime", "language"),
		contextsEnded:     counter("contexts_ended_total", "Contexts that were ended, by how.", "reason"),
		runsStarted:       counter("runs_started_total", "Runs accepted.", "runtime"),
		runsCompleted:     counter("runs_completed_total", "Runs that ended.", "runtime", "outcome", "reason"),
		duration:          histogram("run_duration_seconds", "Time from running to the end.", "runtime", "outcome", "reason"),
		queueWait:         histogram("queue_wait_seconds", "Time from queued to starting.", "runtime"),
		queueFull:         counter("queue_full_total", "Runs refused because the queue was full.", "component", "runtime", "reason"),
		queueExpired:      counter("queue_ttl_expired_total", "Runs that waited too long.", "component", "runtime", "reason"),
		uploadBytes:       counter("upload_bytes_total", "Bytes uploaded, unpacked.", "kind"),
		uploadFiles:       counter("upload_files_total", "Files uploaded.", "kind"),
		logBytes:          counter("log_bytes_total", "Output of runs that was logged, in bytes.", "runtime"),
		warmStarts:        counter("warm_starts_total", "Programs whose interpreter could wait for them: hit if one did, else miss.", "runtime", "result"),
		logTruncations:    counter("log_truncations_total", "Logs that were cut.", "component", "reason"),
		opened:            counter("ws_connections_opened_total", "Streams opened.", "component"),
		heartbeats:        counter("ws_heartbeats_sent_total", "Heartbeats sent.", "component"),
		disconnects:       counter("ws_disconnects_total", "Streams that ended.", "component"),
		drops:             counter("ws_queue_drops_total", "Streams or frames dropped because a reader was too slow.", "component", "reason"),

		startLatency:    histogram("start_latency_seconds", "Time from queued to running.", "runtime"),
		runs:            gauge("runs", "Runs in progress.", "phase"),
		sessions:        gauge("sessions", "Sessions alive.", "runtime"),
		requests:        counter("http_requests_total", "HTTP requests answered.", "method", "route", "status"),
		requestDuration: histogram("http_request_duration_seconds", "Time to answer HTTP requests, WebSockets apart.", "method", "route"),
		authFailures:    counter("auth_failures_total", "Requests that were not authenticated.", "reason"),
		denials:         counter("denials_total", "Requests that a policy or a right forbade.", "reason"),

		approvalsPending:  gauge("approvals_pending", "Requests that wait for an operator's approval.", "kind"),
		approvalDecisions: counter("approval_decisions_total", "Requests that no longer wait for an approval.", "kind", "state"),
		approvalHooks:     counter("approval_webhooks_total", "Events of approvals for the webhook, by what became of them.", "result"),
		egressConnections: counter("egress_connections_total", "Connections of sandboxes to the network, and names that were denied.", "decision", "reason"),
		egressBytes:       counter("egress_bytes_total", "Bytes of these connections, to sandboxes (in) and from them (out).", "direction"),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "belljar_build_info", Help: "Always 1; the labels say which build this is.",
		ConstLabels: prometheus.Labels{"version": opts.Version, "commit": opts.Commit, "goversion": runtime.Version()},
	})
	build.Set(1)
	c.registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c.thread, c.upstream = newThreadMetrics(c.registry), newUpstreamMetrics(c.registry)
	c.prepare()
	return c
}

// prepare creates the series that a dashboard needs before the first event.
func (c *Counter) prepare() {
	for _, name := range c.runtimes {
		for _, v := range []*prometheus.CounterVec{c.m.sessionsCreated, c.m.sessionsResumed, c.m.runsStarted, c.m.logBytes} {
			v.WithLabelValues(name)
		}
		c.m.sessions.WithLabelValues(name)
	}
	for _, phase := range phases() {
		c.m.runs.WithLabelValues(string(phase))
	}
	for _, v := range []*prometheus.CounterVec{c.m.opened, c.m.heartbeats, c.m.disconnects} {
		v.WithLabelValues("ws")
	}
}

// Handler serves the metrics in Prometheus' formats.
func (c *Counter) Handler() http.Handler {
	return promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{Registry: c.registry, MaxRequestsInFlight: 4})
}
