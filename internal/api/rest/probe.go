package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/belljar/belljar/internal/api"
)

// Check is the state of one part of the server. Detail is public.
type Check struct {
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	// State and Circuit are of a part that depends on another server.
	State   string `json:"state,omitempty" enum:"ready,degraded,down"`
	Circuit string `json:"circuit,omitempty" enum:"closed,half-open,open"`
}

// readiness is the response of GET /readyz.
type readiness struct {
	Status string           `json:"status" enum:"ready,not_ready"`
	Checks map[string]Check `json:"checks"`
}

// health is the response of GET /healthz.
type health struct {
	Status string `json:"status" enum:"ok"`
}

// readyTimeout limits all checks of GET /readyz.
const readyTimeout = 5 * time.Second

func (d *Door) probes() {
	d.open("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		api.WriteJSON(w, http.StatusOK, health{"ok"})
	})
	d.open("GET /readyz", d.ready)
	if d.opts.Metrics == nil {
		return
	}
	if d.opts.MetricsOpen {
		d.open("GET /metrics", d.opts.Metrics.ServeHTTP)
		return
	}
	d.guarded("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if api.AdmitOperator(d.opts.Events, w, r, "the metrics are for operators") {
			d.opts.Metrics.ServeHTTP(w, r)
		}
	})
}

func (d *Door) ready(w http.ResponseWriter, r *http.Request) {
	ctx, stop := context.WithTimeout(r.Context(), readyTimeout)
	defer stop()
	answer, status := readiness{Status: "ready", Checks: map[string]Check{}}, http.StatusOK
	if d.opts.Ready != nil {
		for name, check := range d.opts.Ready(ctx) {
			answer.Checks[name] = check
			if !check.OK {
				answer.Status, status = "not_ready", http.StatusServiceUnavailable
			}
		}
	}
	api.WriteJSON(w, status, answer)
}
