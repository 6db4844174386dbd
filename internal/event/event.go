// Package event is the contract between what happens and what keeps count of it: the audit trail and the metrics. The
// service and the doors record; nothing is decided by what is recorded.
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

// Belljar's own, for the audit trail too.
const (
	SessionEnded    = "sandbox.session.ended"    // Reason is its state
	SessionResumed  = "sandbox.session.resumed"  // its scope was opened again
	SessionRevived  = "sandbox.session.revived"  // it outlived the process that made it
	SessionRetained = "sandbox.session.retained" // Took is for how long
	Uploaded        = "sandbox.session.uploaded"
	ArtifactOpened  = "sandbox.artifact.opened"
	StdinClosed     = "sandbox.run.stdin_closed" // Count is the bytes taken
	TerminalOpened  = "sandbox.terminal.opened"
	TerminalEnded   = "sandbox.terminal.ended" // Reason is how
	TokenCreated    = "sandbox.token.created"
	TokenRevoked    = "sandbox.token.revoked"
	QuotaSet        = "sandbox.quota.set"
	ImagePulled     = "sandbox.image.pulled" // or not: Err states why; Count is the bytes unpacked, as with the next
	ImageImported   = "sandbox.image.imported"
	ImageTagged     = "sandbox.image.tagged"
	ImageRemoved    = "sandbox.image.removed"
	ImagesPruned    = "sandbox.image.pruned" // Count is the bytes freed
	AuthFailed      = "sandbox.auth.failed"
	Denied          = "sandbox.denied" // Reason is the error's code
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
	Request         = "http.request"     // Kind is the route, Reason the status, Took the time
)

// Event is one thing that happened. Fields that a name does not speak of may be zero.
type Event struct {
	Name      string
	Time      time.Time // zero is now
	Caller    belljar.Caller
	Run       *belljar.Run     // as it was then; not to be changed
	Session   *belljar.Session // as it was then; not to be changed
	Runtime   string
	Component string // the part of Belljar that speaks: ws, sse, service …
	Kind      string
	Reason    string
	Took      time.Duration
	Count     int64 // bytes
	Files     int64
	Detail    map[string]string // what else the audit trail should say
	Err       error
}

// Sink keeps count. Record returns at once: it never waits for a disk or a network, and never fails.
type Sink interface {
	Record(e Event)
}

// Sinks is several of them.
type Sinks []Sink

// Record passes an event to all.
func (s Sinks) Record(e Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	for _, sink := range s {
		sink.Record(e)
	}
}
