package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

// line is one line of the trail: first the fields of docs/compatibility.md#audit-trail, then Belljar's own.
type line struct {
	Event          string  `json:"event"`
	TS             string  `json:"ts"`
	Source         string  `json:"source,omitempty"`
	UserID         string  `json:"user_id,omitempty"` // owner of the run or session, else the caller
	RunID          string  `json:"run_id,omitempty"`
	SessionID      string  `json:"session_id,omitempty"`
	Runtime        string  `json:"runtime,omitempty"`
	RuntimeVersion string  `json:"runtime_version,omitempty"`
	BaseImage      string  `json:"base_image,omitempty"`
	ImageDigest    string  `json:"image_digest,omitempty"`
	SpecVersion    string  `json:"spec_version,omitempty"`
	PolicyHash     string  `json:"policy_hash,omitempty"`
	Phase          string  `json:"phase,omitempty"`
	ExitCode       *int    `json:"exit_code,omitempty"`
	ReasonCode     string  `json:"reason_code,omitempty"`
	Message        string  `json:"message,omitempty"`
	ResourceUsage  *usage  `json:"resource_usage,omitempty"`
	Limits         *limits `json:"limits,omitempty"`

	Host        string `json:"host,omitempty"` // that a program reached or was denied
	IP          string `json:"ip,omitempty"`
	MatchedRule string `json:"matched_rule,omitempty"`

	ActorID    string            `json:"actor_id,omitempty"` // the caller, if not user_id
	State      string            `json:"state,omitempty"`    // of a session
	ErrorClass string            `json:"error_class,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	Component  string            `json:"component,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	TookSec    float64           `json:"took_sec,omitempty"`
	Bytes      int64             `json:"bytes,omitempty"`
	Files      int64             `json:"files,omitempty"`
	Detail     map[string]string `json:"detail,omitempty"`
	RequestID  string            `json:"request_id,omitempty"`
	TraceID    string            `json:"trace_id,omitempty"`
	Address    string            `json:"address,omitempty"`
	Model      string            `json:"model,omitempty"`
	ContextID  string            `json:"context_id,omitempty"`
}

// usage is the summary of a run's usage.
type usage struct {
	CPUTimeSec    *float64 `json:"cpu_time_sec,omitempty"`
	WallTimeSec   float64  `json:"wall_time_sec"`
	PeakRSSMB     *float64 `json:"peak_rss_mb,omitempty"`
	LogBytes      int64    `json:"log_bytes"`
	ArtifactBytes int64    `json:"artifact_bytes"`
}

// limits are the limits of docs/compatibility.md#audit-trail.
type limits struct {
	CPU               float64 `json:"cpu"`
	MemoryMB          int     `json:"memory_mb"`
	StartupTimeoutSec float64 `json:"startup_timeout_sec"`
	TimeoutSec        float64 `json:"timeout_sec"`
}

// timeFormat is RFC 3339 with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

func stamp(t time.Time) string { return t.UTC().Format(timeFormat) }

// encode encodes e as a line.
func encode(e event.Event, redact bool) ([]byte, error) {
	c := e.Caller
	l := line{
		Event: e.Name, TS: stamp(e.Time), Source: c.Source, UserID: c.ID, Runtime: e.Runtime,
		Reason: e.Reason, Component: e.Component, Kind: e.Kind, TookSec: e.Took.Seconds(), Bytes: e.Count, Files: e.Files,
		Detail: e.Detail, RequestID: c.RequestID, TraceID: c.TraceID, Address: c.Address, Model: c.Model, ContextID: c.ContextID,
	}
	if (e.Name == event.EgressAllowed || e.Name == event.EgressDenied) && e.Reason != manyMore {
		l.Host, l.IP, l.MatchedRule, l.Detail = e.Detail["host"], e.Detail["ip"], e.Detail["matched_rule"], nil
	}
	if e.Err != nil {
		l.fail(e.Err)
	}
	if e.Session != nil {
		l.session(e.Session)
	}
	if e.Run != nil {
		l.run(e.Run)
	}
	if l.UserID != c.ID {
		l.ActorID = c.ID
	}
	if l.Reason == l.ReasonCode || l.Reason == l.State {
		l.Reason = ""
	}
	if redact {
		l.Message = redactMessage(l.Message)
		l.Detail = redactDetail(l.Detail)
	}
	l.bound()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(l)
	return b.Bytes(), err
}

func (l *line) session(s *belljar.Session) {
	l.SessionID, l.State = s.ID, string(s.State)
	l.UserID = cmp.Or(s.UserID, l.UserID)
	l.Message = cmp.Or(s.Message, l.Message)
	l.Runtime, l.RuntimeVersion = cmp.Or(s.Runtime, l.Runtime), s.RuntimeVersion
	l.BaseImage, l.ImageDigest, l.SpecVersion, l.PolicyHash = s.BaseImage, s.ImageDigest, s.SpecVersion, s.PolicyHash
	l.limits(&s.Limits)
}

func (l *line) run(r *belljar.Run) {
	l.RunID, l.Phase, l.ExitCode, l.ReasonCode = r.ID, string(r.Phase), r.ExitCode, string(r.ReasonCode)
	l.UserID = cmp.Or(r.UserID, l.UserID)
	l.SessionID = cmp.Or(r.SessionID, l.SessionID)
	if r.ReasonCode != belljar.ReasonExecFailed || r.ExitCode == nil { // with an exit code, the message may begin with the command, or its folder
		l.Message = cmp.Or(r.Message, l.Message)
	}
	l.Runtime = cmp.Or(r.Runtime, l.Runtime)
	l.RuntimeVersion = r.RuntimeVersion
	l.BaseImage, l.ImageDigest, l.SpecVersion, l.PolicyHash = r.BaseImage, r.ImageDigest, r.SpecVersion, r.PolicyHash
	if u := r.ResourceUsage; u != nil {
		l.ResourceUsage = &usage{u.CPUTimeSec, u.WallTimeSec, u.PeakRSSMB, u.LogBytes, u.ArtifactBytes}
		if u.Limits != nil {
			l.limits(u.Limits)
		}
	}
}

func (l *line) limits(of *belljar.Limits) {
	l.Limits = &limits{of.CPU, of.MemoryMB, of.StartupTimeoutSec, of.TimeoutSec}
}

// fail sets an error's code and message. It leaves out the cause, which may contain anything.
func (l *line) fail(err error) {
	l.ErrorClass = string(belljar.CodeOf(err))
	var e *belljar.Error
	if errors.As(err, &e) {
		l.Message = e.Message
	}
}

// longest is the approximate limit of a value that a caller chose, in bytes.
const longest = 1 << 10

// bound truncates the values that callers choose.
func (l *line) bound() {
	for _, s := range []*string{
		&l.Source, &l.UserID, &l.ActorID, &l.Message, &l.BaseImage, &l.RequestID, &l.TraceID, &l.Address, &l.Model, &l.ContextID,
	} {
		*s = short(*s)
	}
	if len(l.Detail) == 0 {
		return
	}
	bounded := make(map[string]string, len(l.Detail)) // the event's own map must not change
	for name, value := range l.Detail {
		bounded[name] = short(value)
	}
	l.Detail = bounded
}

func short(s string) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

// encodeLost returns the line that reports the number of lost events.
func encodeLost(now time.Time, count int64) []byte {
	b, _ := json.Marshal(struct {
		Event string `json:"event"`
		TS    string `json:"ts"`
		Count int64  `json:"count"`
	}{Lost, stamp(now), count}) // cannot fail
	return append(b, '\n')
}
