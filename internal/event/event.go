// Package event is the contract between the code that reports events (the service and the API packages) and their
// consumers: the audit trail and the metrics. Events never affect decisions.
package event

import (
	"time"

	"github.com/belljar/belljar"
)

// The names of events of the audit trail (docs/compatibility.md#audit-trail).
const (
	SessionCreated = "sandbox.session.created" // Detail has allow_weak: the missing protections that the request waived, as in the next
	RunCreated     = "sandbox.run.created"
	RunQueued      = "sandbox.run.queued"
	RunStarting    = "sandbox.run.starting" // Took is the wait in the queue
	RunRunning     = "sandbox.run.running"  // Took is the time from queued to running
	RunCompleted   = "sandbox.run.completed"
	RunFailed      = "sandbox.run.failed"
	RunTimedOut    = "sandbox.run.timed_out"
	RunKilled      = "sandbox.run.killed"
)

// A host that programs reached or were denied, once for each run, host and reason (docs/compatibility.md#audit-trail). Detail has host,
// ip and matched_rule; Reason is why it was denied.
const (
	EgressAllowed = "sandbox.run.egress_allowed"
	EgressDenied  = "sandbox.run.egress_denied"
	// EgressNames is a run that used an unusual number of names under one wildcard. Detail has matched_rule and names, their number.
	EgressNames = "sandbox.run.egress_names"
)

// Belljar's own events of the audit trail.
const (
	SessionEnded    = "sandbox.session.ended"    // Reason is its state; only of sessions that were made
	SessionResumed  = "sandbox.session.resumed"  // a client reopened its scope
	SessionRevived  = "sandbox.session.revived"  // recovered after a restart of the server
	SessionNetwork  = "sandbox.session.network"  // its network policy has changed; Kind is the new one
	SessionRetained = "sandbox.session.retained" // Took is the time of retention
	SessionForked   = "sandbox.session.forked"   // copies of it were made
	// A session has released its sandbox, or has one again. Took is how long that took. For the first event, Count is the bytes of its
	// files.
	SessionHibernated = "sandbox.session.hibernated"
	SessionWoken      = "sandbox.session.woken"
	Uploaded          = "sandbox.session.uploaded"
	ArtifactOpened    = "sandbox.artifact.opened"
	StdinClosed       = "sandbox.run.stdin_closed" // Count is the bytes received
	TerminalOpened    = "sandbox.terminal.opened"
	TerminalEnded     = "sandbox.terminal.ended"  // Reason is the cause
	ContextCreated    = "sandbox.context.created" // Kind is its language
	ContextEnded      = "sandbox.context.ended"   // Reason is the cause: deleted or restarted
	PortOpened        = "sandbox.port.opened"     // the first of concurrent connections to a port; Kind is the port
	PortClosed        = "sandbox.port.closed"     // the last of them; Count is their bytes
	PreviewCreated    = "sandbox.preview.created"
	PreviewEnded      = "sandbox.preview.ended" // Reason is the cause: revoked, expired, session
	// A request waits for an approval, or was decided: Kind is run or session, Took how long it waited. Detail has approval_id, reasons
	// and decided_by.
	ApprovalRequested = "sandbox.approval.requested"
	ApprovalApproved  = "sandbox.approval.approved"
	ApprovalDenied    = "sandbox.approval.denied"
	ApprovalExpired   = "sandbox.approval.expired"
	ApprovalWithdrawn = "sandbox.approval.withdrawn"

	TokenCreated     = "sandbox.token.created"
	TokenRevoked     = "sandbox.token.revoked"
	SignInCode       = "sandbox.login.code" // a one-time code was made; Detail has its token_id, as in the next two
	SignedIn         = "sandbox.login.opened"
	SignedOut        = "sandbox.login.ended"
	SecretSet        = "sandbox.secret.set" // Detail has the secret's name; Kind is shared for a secret of all users, as in the next two
	SecretRemoved    = "sandbox.secret.removed"
	SecretUsed       = "sandbox.secret.used"
	QuotaSet         = "sandbox.quota.set"
	SnapshotMade     = "sandbox.snapshot.made" // Kind is session or import; Count is the bytes of its files
	SnapshotExported = "sandbox.snapshot.exported"
	SnapshotRemoved  = "sandbox.snapshot.removed"
	VolumeMade       = "sandbox.volume.made" // Detail has the volume's name, and Count is its size in bytes, as in the next
	VolumeRemoved    = "sandbox.volume.removed"
	TemplateBuilt    = "sandbox.template.built" // Detail has the template's name and why it was built, and Count is the bytes of its files
	TemplateRemoved  = "sandbox.template.removed"
	ImagePulled      = "sandbox.image.pulled" // Err if it failed; Count is the unpacked bytes, as in the next
	ImageImported    = "sandbox.image.imported"
	ImageTagged      = "sandbox.image.tagged"
	ImageRemoved     = "sandbox.image.removed"
	ImagesPruned     = "sandbox.image.pruned" // Count is the bytes freed
	AuthFailed       = "sandbox.auth.failed"
	Denied           = "sandbox.denied" // Reason is the error's code
)

// Belljar's own events, for the metrics only.
const (
	QueueFull       = "queue.full"
	QueueTTLExpired = "queue.ttl_expired"
	LogTruncated    = "log.truncated"
	LogBytes        = "log.bytes"
	StreamOpened    = "stream.opened" // Component is ws or sse
	StreamClosed    = "stream.closed" // Reason is the cause
	StreamDropped   = "stream.dropped"
	HeartbeatSent   = "stream.heartbeat"
	TerminalRefused = "terminal.refused" // no client could attach; Reason is the error's code
	WorkspaceOpened = "workspace.opened" // a request opened a workspace: Kind is its mode, Took the time, Reason the error's code
	ApprovalResumed = "approval.resumed" // it still waits, after a restart
	RunReattached   = "run.reattached"   // its command still runs, after a restart
	HookSent        = "hook.sent"        // an event of an approval was sent to the webhook; Kind is delivered, failed or dropped
	EgressDecided   = "egress.decided"   // a connection or name; Kind is allowed or denied
	EgressBytes     = "egress.bytes"     // Kind is in or out
	InlineFiles     = "run.files"        // files of a run's request were written to its sandbox; Kind is inline
	WarmStart       = "run.warm"         // a run that could use an interpreter started in advance; Reason is hit or miss
	Request         = "http.request"     // Kind is the route, Reason the status, Took the time

	// Events of an upstream server, which Component names: workspace_service, sprites_api or belljar.
	UpstreamRequest = "upstream.request" // Reason is the status, or why there was none; Took is the time to the start of the response
	UpstreamReady   = "upstream.ready"   // its readiness was checked; Reason is the fault, Took the time
	UpstreamFailed  = "upstream.failed"  // attaching to a sandbox there failed; Reason is the fault
	UpstreamLost    = "upstream.lost"    // the connection to a sandbox there was lost
)

// Event is one event. Fields that do not apply to its name may be zero.
type Event struct {
	Name      string
	Time      time.Time // zero is now
	Caller    belljar.Caller
	Run       *belljar.Run      // snapshot; do not modify
	Session   *belljar.Session  // snapshot; do not modify
	Approval  *belljar.Approval // snapshot; do not modify
	Runtime   string
	Component string // the reporting part of Belljar: ws, sse, service …
	Kind      string
	Reason    string
	Took      time.Duration
	Count     int64 // bytes
	Files     int64
	Detail    map[string]string // further details for the audit trail
	Err       error
}

// Sink consumes events. Record never blocks on a disk or a network, and never fails.
type Sink interface {
	Record(e Event)
}

// Sinks passes events to several sinks.
type Sinks []Sink

// Record passes an event to every sink.
func (s Sinks) Record(e Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	for _, sink := range s {
		sink.Record(e)
	}
}

// Series is one series of a metric.
type Series struct {
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
}
