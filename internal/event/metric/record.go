package metric

import (
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

// orchestrator is the component label of events that name no component.
const orchestrator = "orchestrator"

// Record counts an event. It ignores events without a metric.
func (c *Counter) Record(e event.Event) {
	rt := c.runtime(e)
	component := components().or(e.Component, orchestrator)
	switch e.Name {
	case event.SessionCreated:
		c.m.sessionsCreated.WithLabelValues(rt).Inc()
		if e.Session != nil && c.live.add(e.Session.ID, rt) {
			c.m.sessions.WithLabelValues(rt).Inc()
		}
	case event.SessionRevived:
		if e.Session != nil && c.live.add(e.Session.ID, rt) {
			c.m.sessions.WithLabelValues(rt).Inc()
		}
	case event.SessionResumed:
		c.m.sessionsResumed.WithLabelValues(rt).Inc()
	case event.SessionHibernated:
		c.m.hibernations.WithLabelValues(rt, "hibernated").Inc()
	case event.SessionWoken:
		c.m.hibernations.WithLabelValues(rt, "woken").Inc()
	case event.SessionEnded:
		c.m.sessionsEnded.WithLabelValues(rt, sessionEnds().or(e.Reason, string(belljar.SessionLost))).Inc()
		c.m.sessionLife.WithLabelValues(rt).Observe(e.Took.Seconds())
		if e.Session != nil {
			if was, ok := c.live.drop(e.Session.ID); ok {
				c.m.sessions.WithLabelValues(was).Dec()
			}
		}
	case event.TerminalOpened:
		c.m.terminalsOpened.WithLabelValues(rt).Inc()
	case event.TerminalEnded:
		kind, _, _ := strings.Cut(e.Reason, " ")
		c.m.terminalsEnded.WithLabelValues(terminalEnds().or(kind, other)).Inc()
	case event.TerminalRefused:
		c.m.terminalsRefused.WithLabelValues(codes().or(e.Reason, other)).Inc()
	case event.WorkspaceOpened:
		mode := workspaceModes().or(e.Kind, other)
		if e.Reason != "" {
			c.m.workspaceFailures.WithLabelValues(mode, codes().or(e.Reason, other)).Inc()
			break
		}
		c.m.workspaceReady.WithLabelValues(mode).Observe(e.Took.Seconds())
	case event.ContextCreated:
		c.m.contextsCreated.WithLabelValues(rt, contextLanguages().or(e.Kind, other)).Inc()
	case event.ContextEnded:
		c.m.contextsEnded.WithLabelValues(contextEnds().or(e.Reason, other)).Inc()
	case event.RunCreated:
		c.m.runsStarted.WithLabelValues(rt).Inc()
	case event.RunQueued:
		c.enter(e, belljar.PhaseQueued)
	case event.RunStarting:
		c.m.queueWait.WithLabelValues(rt).Observe(e.Took.Seconds())
		c.enter(e, belljar.PhaseStarting)
	case event.RunRunning:
		c.m.startLatency.WithLabelValues(rt).Observe(e.Took.Seconds())
		c.enter(e, belljar.PhaseRunning)
	case event.RunReattached:
		c.enter(e, belljar.PhaseRunning)
	case event.RunCompleted, event.RunFailed, event.RunTimedOut, event.RunKilled:
		c.ended(e, rt)
	case event.QueueFull:
		c.m.queueFull.WithLabelValues(component, rt, queueReasons().or(e.Reason, "queue_full")).Inc()
	case event.QueueTTLExpired:
		c.m.queueExpired.WithLabelValues(component, rt, queueReasons().or(e.Reason, "queue_ttl_expired")).Inc()
	case event.Uploaded, event.InlineFiles:
		kind := uploadKinds().or(e.Kind, "file")
		c.m.uploadBytes.WithLabelValues(kind).Add(float64(max(e.Count, 0)))
		c.m.uploadFiles.WithLabelValues(kind).Add(float64(max(e.Files, 0)))
	case event.LogBytes:
		c.m.logBytes.WithLabelValues(rt).Add(float64(max(e.Count, 0)))
	case event.LogTruncated:
		c.m.logTruncations.WithLabelValues(component, cutReasons().or(e.Reason, "log_cap")).Inc()
	case event.WarmStart:
		c.m.warmStarts.WithLabelValues(rt, warmResults().or(e.Reason, "miss")).Inc()
	case event.StreamOpened:
		c.m.opened.WithLabelValues(components().or(e.Component, "ws")).Inc()
	case event.StreamClosed:
		c.m.disconnects.WithLabelValues(components().or(e.Component, "ws")).Inc()
	case event.StreamDropped:
		c.m.drops.WithLabelValues(components().or(e.Component, "ws"), dropReasons().or(e.Reason, "slow")).Inc()
	case event.HeartbeatSent:
		c.m.heartbeats.WithLabelValues(components().or(e.Component, "ws")).Add(float64(max(e.Count, 1)))
	case event.ApprovalRequested, event.ApprovalResumed:
		c.m.approvalsPending.WithLabelValues(waiters().or(e.Kind, "run")).Inc()
	case event.ApprovalApproved, event.ApprovalDenied, event.ApprovalExpired, event.ApprovalWithdrawn:
		kind := waiters().or(e.Kind, "run")
		c.m.approvalsPending.WithLabelValues(kind).Dec()
		c.m.approvalDecisions.WithLabelValues(kind, e.Name[strings.LastIndexByte(e.Name, '.')+1:]).Inc()
	case event.HookSent:
		c.m.approvalHooks.WithLabelValues(hookResults().or(e.Kind, other)).Inc()
	case event.EgressDecided:
		c.m.egressConnections.WithLabelValues(decisions().or(e.Kind, other), egressReasons().or(e.Reason, "")).Inc()
	case event.EgressBytes:
		c.m.egressBytes.WithLabelValues(directions().or(e.Kind, other)).Add(float64(max(e.Count, 0)))
	case event.Request:
		c.request(e)
	case event.AuthFailed:
		c.m.authFailures.WithLabelValues(authReasons().or(e.Reason, other)).Inc()
	case event.Thread:
		c.thread.record(e)
	case event.UpstreamRequest, event.UpstreamReady, event.UpstreamFailed, event.UpstreamLost:
		c.upstream.record(e)
	case event.Denied:
		c.m.denials.WithLabelValues(codes().or(e.Reason, other)).Inc()
	}
}

// enter moves a run to a phase.
func (c *Counter) enter(e event.Event, phase belljar.Phase) {
	if e.Run == nil {
		return
	}
	was, followed := c.live.move(e.Run.ID, string(phase))
	if !followed {
		return
	}
	if was != "" {
		c.m.runs.WithLabelValues(was).Dec()
	}
	c.m.runs.WithLabelValues(string(phase)).Inc()
}

// ended counts the end of a run. A run whose start this process did not see, as after a restart, changes no gauge.
func (c *Counter) ended(e event.Event, rt string) {
	outcome := strings.TrimPrefix(e.Name, "sandbox.run.")
	reason := reasonOf(e)
	c.m.runsCompleted.WithLabelValues(rt, outcome, reason).Inc()
	if e.Run == nil {
		return
	}
	took := e.Took
	if took == 0 && e.Run.StartedAt != nil && e.Run.FinishedAt != nil {
		took = e.Run.FinishedAt.Sub(*e.Run.StartedAt)
	}
	if took > 0 {
		c.m.duration.WithLabelValues(rt, outcome, reason).Observe(took.Seconds())
	}
	if was, ok := c.live.drop(e.Run.ID); ok {
		c.m.runs.WithLabelValues(was).Dec()
	}
}

// reasonOf returns the label reason of an ended run: exit_code_0 or exit_code_nonzero if it completed, else its reason
// code.
func reasonOf(e event.Event) string {
	reason := e.Reason
	if e.Run != nil && e.Run.ReasonCode != "" {
		reason = string(e.Run.ReasonCode)
	}
	if e.Name != event.RunCompleted {
		return reasons().or(reason, other)
	}
	if e.Run != nil && e.Run.ExitCode != nil && *e.Run.ExitCode != 0 {
		return "exit_code_nonzero"
	}
	return "exit_code_0"
}

// request counts an HTTP request. The duration of a WebSocket connection is not a response time and is left out.
func (c *Counter) request(e event.Event) {
	method, route, ok := strings.Cut(e.Kind, " ")
	if !ok {
		method, route = other, e.Kind
	}
	method, route = methods().or(method, other), c.routes.known(route)
	c.m.requests.WithLabelValues(method, route, statusOf(e.Reason)).Inc()
	if e.Reason != "101" {
		c.m.requestDuration.WithLabelValues(method, route).Observe(e.Took.Seconds())
	}
}

// runtime returns the label runtime of an event.
func (c *Counter) runtime(e event.Event) string {
	name := e.Runtime
	switch {
	case name != "":
	case e.Run != nil:
		name = e.Run.Runtime
	case e.Session != nil:
		name = e.Session.Runtime
	}
	return c.runtimes.or(name, other)
}
