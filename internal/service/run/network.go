package run

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/outcome"
)

// network records the network use of a run's sandbox; for a session's sandbox, while the run lasts.
type network struct {
	watch *box.Watcher
	// earlier is the report of side sandboxes and of a previous process. lost means that the previous process ended before it recorded its report.
	earlier *belljar.EgressReport
	lost    bool
}

// mostDenied is how many denied hosts the warnings of a run name.
const mostDenied = 5

// watchNetwork records the events of the sandbox's gate from now on.
func (c *execution) watchNetwork() {
	if state := c.run.Snapshot(); state.StartedAt != nil { // a previous process began it
		c.net.earlier, c.net.lost = state.Egress, c.plan.Egress != nil && (state.Egress == nil || state.Git != nil || len(state.Egress.Presets) > 0)
	}
	c.net.watch = c.box.Network.Watch(func(e egress.Event, alone bool) {
		c.run.appendUnlessOver(egressFrame(e))
		if alone {
			c.runner.recordEgress(c.run, e)
		}
	})
}

// endNetwork stores the gate's report in the run, and returns warnings about denied hosts.
func (c *execution) endNetwork() (warnings []string) {
	if c.net.watch == nil {
		return nil
	}
	c.net.watch.End()
	report := c.net.watch.Report()
	if report == nil {
		return nil
	}
	whole := outcome.AddEgress(c.net.earlier, *report)
	c.reportEgress(&whole)
	if c.net.lost {
		warnings = append(warnings, "network: what left the sandbox before belljar was restarted is not counted")
	}
	warnings = append(warnings, admission.Uncovered(c.plan.Egress)...)
	for _, many := range c.net.watch.ManyNames() {
		warnings = append(warnings, fmt.Sprintf("network: %d different names under %s were used, and the DNS servers of %s see each of them",
			many.Count, many.Rule, strings.TrimPrefix(many.Rule, "*.")))
		state := c.run.Snapshot()
		c.runner.record(event.Event{
			Name: event.EgressNames, Caller: c.run.caller, Run: &state, Runtime: state.Runtime,
			Detail: map[string]string{"matched_rule": many.Rule, "names": strconv.Itoa(many.Count)},
		})
	}
	return append(warnings, c.denied(whole)...)
}

// reportEgress stores a report in the run.
func (c *execution) reportEgress(report *belljar.EgressReport) {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	c.run.state.Egress = report
}

// denied returns one warning for each denied host.
func (c *execution) denied(report belljar.EgressReport) (warnings []string) {
	more, policy := "--allow", c.plan.Egress
	if x := c.plan.session; x != nil {
		more, policy = "it to the session's rules, which this command replaces: belljar session network "+x.ID()+" --allow", x.Placement().Egress
	}
	seen, known := map[string]bool{}, map[string]bool{}
	if c.plan.Egress != nil {
		for _, rule := range c.plan.Egress.Uncovered() {
			known[rule] = true
		}
	}
	for _, h := range report.Hosts {
		if h.Denied == 0 || seen[h.Host] || known[h.Host] {
			continue
		}
		if seen[h.Host] = true; len(seen) <= mostDenied {
			warnings = append(warnings, admission.Denied(policy, h, more))
		}
	}
	if n := len(seen) - mostDenied; n > 0 {
		warnings = append(warnings, fmt.Sprintf("network: %d more hosts are not allowed; the run's egress lists them", n))
	}
	return warnings
}

// egressFrame converts a gate's event for the log.
func egressFrame(e egress.Event) belljar.Frame {
	data := map[string]any{"allowed": e.Allowed, "host": e.Host}
	for name, text := range map[string]string{"rule": e.Rule, "reason": string(e.Reason)} {
		if text != "" {
			data[name] = text
		}
	}
	if e.IP.IsValid() {
		data["ip"] = e.IP.String()
	}
	if e.Port != 0 {
		data["port"] = e.Port
	}
	return belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventEgress, Data: data}
}

// network reports whether the run has a network.
func (p *plan) network() bool {
	if p.session != nil {
		return p.session.Network.Spec().NetworkPolicy == belljar.NetworkAllowlist
	}
	return p.Egress != nil
}

// recordEgress records an event of the gate for a run.
func (s *recorder) recordEgress(r *Run, e egress.Event) {
	state := r.Snapshot()
	out := box.EgressEvent(e)
	out.Caller, out.Run, out.Runtime = r.caller, &state, state.Runtime
	s.record(out)
}

// appendUnlessOver appends a frame of Belljar to the log of a run that has not ended.
func (r *Run) appendUnlessOver(f belljar.Frame) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if !r.over {
		r.appendLog(f)
	}
}
