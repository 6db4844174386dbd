// Package event is the contract between the code that reports events (the service and the API packages) and their
// consumers: the audit trail and the metrics. Events never affect decisions.
package event

import (
	"time"

	"github.com/belljar/belljar"
)

// The names of events of the audit trail (docs/compatibility.md#audit-trail).
const (
	SessionCreated = "sandbox.session.created"
	RunCreated     = "sandbox.run.created"
	RunQueued      = "sandbox.run.queued"
	RunStarting    = "sandbox.run.starting" // Took is the wait in the queue
	RunRunning     = "sandbox.run.running"  // Took is the time from queued to running
	RunCompleted   = "sandbox.run.completed"
	RunFailed      = "sandbox.run.failed"
	RunTimedOut    = "sandbox.run.timed_out"
	RunKilled      = "sandbox.run.killed"
)

// A host that programs reached, or that they were denied, once for each run, host and reason (docs/compatibility.md#audit-trail).
// Detail has host, ip and matched_rule; Reason is why it was denied.
const (
	EgressAllowed = "sandbox.run.egress_allowed"
	EgressDenied  = "sandbox.run.egress_denied"
	// EgressNames is a run that used remarkably many names under one wildcard. Detail has matched_rule and names, their number.
	EgressNames = "sandbox.run.egress_names"
)

// Belljar's own, for the audit trail too.
const (
	SessionEnded    = "sandbox.session.ended"    // Reason is its state
	SessionResumed  = "sandbox.session.resumed"  // a client reopened its scope
	SessionRevived  = "sandbox.session.revived"  // recovered after a restart of the server
	SessionNetwork  = "sandbox.session.network"  // what it may reach has changed; Kind is its policy
	SessionRetained = "sandbox.session.retained" // Took is the time of retention
	SessionForked   = "sandbox.session.forked"   // copies of it were made
	// A session has given its sandbox up, and has one again. Took is how long that took; of the first, Count is the bytes of its files.
	SessionHibernated = "sandbox.session.hibernated"
	SessionWoken      = "sandbox.session.woken"
	Uploaded          = "sandbox.session.uploaded"
	ArtifactOpened    = "sandbox.artifact.opened"
	StdinClosed       = "sandbox.run.stdin_closed" // Count is the bytes taken
	TerminalOpened    = "sandbox.terminal.opened"
	TerminalEnded     = "sandbox.terminal.ended"  // Reason is how
	ContextCreated    = "sandbox.context.created" // Kind is its language
	ContextEnded      = "sandbox.context.ended"   // Reason is how: deleted or restarted
	PortOpened        = "sandbox.port.opened"     // the first of the connections to a port that are open at once; Kind is the port
	PortClosed        = "sandbox.port.closed"     // the last of them; Count is their bytes
	PreviewCreated    = "sandbox.preview.created"
	PreviewEnded      = "sandbox.preview.ended" // Reason is how: revoked, expired, session
	// A request waits for a person, and what became of that: Kind is run or session, Took how long it waited. Detail has approval_id,
	// reasons and decided_by.
	ApprovalRequested = "sandbox.approval.requested"
	ApprovalApproved  = "sandbox.approval.approved"
	ApprovalDenied    = "sandbox.approval.denied"
	ApprovalExpired   = "sandbox.approval.expired"
	ApprovalWithdrawn = "sandbox.approval.withdrawn"

	TokenCreated     = "sandbox.token.created"
	TokenRevoked     = "sandbox.token.revoked"
	SignInCode       = "sandbox.login.code" // a one-time code was made; Detail has its token_id, as for the next two
	SignedIn         = "sandbox.login.opened"
	SignedOut        = "sandbox.login.ended"
	SecretSet        = "sandbox.secret.set" // Detail has the secret's name; Kind is shared for one of all users, as for the next two
	SecretRemoved    = "sandbox.secret.removed"
	SecretUsed       = "sandbox.secret.used"
	QuotaSet         = "sandbox.quota.set"
	SnapshotMade     = "sandbox.snapshot.made" // Kind is session or import; Count is the bytes of its files
	SnapshotExported = "sandbox.snapshot.exported"
	SnapshotRemoved  = "sandbox.snapshot.removed"
	VolumeMade       = "sandbox.volume.made" // Detail has the volume's name, and Count is its size in bytes, as for the next
	VolumeRemoved    = "sandbox.volume.removed"
	TemplateBuilt    = "sandbox.template.built" // Detail has the template's name and why it was built, and Count is the bytes of its files
	TemplateRemoved  = "sandbox.template.removed"
	ImagePulled      = "sandbox.image.pulled" // Err if it failed; Count is the unpacked bytes, as for the next
	ImageImported    = "sandbox.image.imported"
	ImageTagged      = "sandbox.image.tagged"
	ImageRemoved     = "sandbox.image.removed"
	ImagesPruned     = "sandbox.image.pruned" // Count is the bytes freed
	AuthFailed       = "sandbox.auth.failed"
	Denied           = "sandbox.denied" // Reason is the error's code
)

// Belljar's own, for the metrics only.
const (
	QueueFull       = "queue.full"
	QueueTTLExpired = "queue.ttl_expired"
	LogTruncated    = "log.truncated"
	LogBytes        = "log.bytes"
	StreamOpened    = "stream.opened" // Component is ws or sse
	StreamClosed    = "stream.closed" // Reason is what ended it
	StreamDropped   = "stream.dropped"
	HeartbeatSent   = "stream.heartbeat"
	TerminalRefused = "terminal.refused" // no client could attach; Reason is the error's code
	WorkspaceOpened = "workspace.opened" // a request asked for one: Kind is its mode, Took the time, Reason the error's code
	ApprovalResumed = "approval.resumed" // it still waits, after a restart
	HookSent        = "hook.sent"        // an event of an approval for the webhook; Kind is delivered, failed or dropped
	EgressDecided   = "egress.decided"   // a connection or name; Kind is allowed or denied
	EgressBytes     = "egress.bytes"     // Kind is in or out
	WarmStart       = "run.warm"         // an interpreter that could have waited for a program; Reason is hit or miss
	Request         = "http.request"     // Kind is the route, Reason the status, Took the time

	// Of a server elsewhere, which Component names: workspace_service, sprites_api or belljar.
	UpstreamRequest = "upstream.request" // Reason is the status, or why there was none; Took is the time until the answer began
	UpstreamReady   = "upstream.ready"   // it was asked whether it can be used; Reason is why not, Took the time
	UpstreamFailed  = "upstream.failed"  // a sandbox there could not be attached to; Reason is why
	UpstreamLost    = "upstream.lost"    // the connection to a sandbox there was lost
)

// Event is one event. Fields that its name does not need may be zero.
type Event struct {
	Name      string
	Time      time.Time // zero is now
	Caller    belljar.Caller
	Run       *belljar.Run      // snapshot; must not be changed
	Session   *belljar.Session  // snapshot; must not be changed
	Approval  *belljar.Approval // snapshot; must not be changed
	Runtime   string
	Component string // the part of Belljar that reports: ws, sse, service …
	Kind      string
	Reason    string
	Took      time.Duration
	Count     int64 // bytes
	Files     int64
	Detail    map[string]string // further details for the audit trail
	Err       error
}

// Sink consumes events. Record returns at once: it never waits for a disk or a network, and never fails.
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
