package belljar

import (
	"context"
	"time"
)

// ApprovalState is the state of an approval.
type ApprovalState string

// The states of an approval. All but the first are final.
const (
	ApprovalPending   ApprovalState = "pending"
	ApprovalApproved  ApprovalState = "approved"
	ApprovalDenied    ApprovalState = "denied"
	ApprovalExpired   ApprovalState = "expired"   // no operator decided in time
	ApprovalWithdrawn ApprovalState = "withdrawn" // the run or the session ended before a decision
)

// Approval is a request that waits, or waited, for an operator's decision (docs/approvals.md). Its id is the id of the run or session.
type Approval struct {
	ID    string        `json:"id"`
	Kind  string        `json:"kind"` // run | session
	State ApprovalState `json:"state"`
	// Reasons are the rules of SANDBOX_APPROVAL that the request matches, each with the value that the request sets.
	Reasons     []string  `json:"reasons"`
	RequestedAt time.Time `json:"requested_at"`
	ExpiresAt   time.Time `json:"expires_at"`
	// DecidedAt is when the approval left the state pending. DecidedBy is the operator who decided, Note their note.
	DecidedAt *time.Time `json:"decided_at,omitempty"`
	DecidedBy string     `json:"decided_by,omitempty"`
	Note      string     `json:"note,omitempty"`

	UserID    string   `json:"user_id"`
	Source    string   `json:"source,omitempty"`     // mcp, cli, rest …
	SessionID string   `json:"session_id,omitempty"` // of a run in a session
	Command   []string `json:"command,omitempty"`    // of a run, at most its first 16 KiB
	// CommandTruncated reports that Command is only the beginning.
	CommandTruncated bool `json:"command_truncated,omitempty"`

	BaseImage string      `json:"base_image,omitempty"`
	Network   NetworkSpec `json:"network,omitzero"` // what the sandbox may reach; empty for a run in a session
	CPU       float64     `json:"cpu,omitempty"`
	MemoryMB  int         `json:"memory_mb,omitempty"`
	// TimeoutSec is the timeout of the run, or the default timeout of the session's runs.
	TimeoutSec float64 `json:"timeout_sec,omitempty"`
	// Fingerprint is the SHA-256 of the request. The decision covers this request only.
	Fingerprint string `json:"fingerprint"`
}

// The decisions.
const (
	DecisionApprove = "approve"
	DecisionDeny    = "deny"
)

// ApprovalDecision is an operator's decision about a waiting request.
type ApprovalDecision struct {
	Decision string `json:"decision"`       // approve | deny
	Note     string `json:"note,omitempty"` // for the user who asked; at most 1000 bytes
}

// maxNote is the most bytes of the note of a decision.
const maxNote = 1000

// Validate checks the decision as far as that is possible without a server.
func (d ApprovalDecision) Validate() error {
	if d.Decision != DecisionApprove && d.Decision != DecisionDeny {
		return invalid("decision", "decision must be approve or deny, not %q", d.Decision)
	}
	if len(d.Note) > maxNote {
		return invalid("note", "note has %d bytes, at most %d are allowed", len(d.Note), maxNote)
	}
	return nil
}

// ApprovalQuery selects approvals. The zero value is the first 50 of all states, newest first.
type ApprovalQuery struct {
	State  ApprovalState
	UserID string // who asked
	Limit  int    // 0 is 50; at most [MaxPage]
	Offset int
}

// Validate checks the query, except for its page, as far as that is possible without a server.
func (q ApprovalQuery) Validate() error {
	switch q.State {
	case "", ApprovalPending, ApprovalApproved, ApprovalDenied, ApprovalExpired, ApprovalWithdrawn:
		return nil
	}
	return invalid("state", "state must be pending, approved, denied, expired or withdrawn, not %q", q.State)
}

// ApprovalPage is one page of a list.
type ApprovalPage struct {
	Items   []Approval `json:"items"`
	Total   int        `json:"total"`
	Limit   int        `json:"limit"`
	Offset  int        `json:"offset"`
	HasMore bool       `json:"has_more"`
}

// Approvals lets operators decide about requests that wait for an approval.
type Approvals interface {
	// Approvals lists approvals, newest first.
	Approvals(ctx context.Context, q ApprovalQuery) (ApprovalPage, error)
	// Decide approves or denies a request, and returns its approval. It fails with [CodeConflict] if the request was already decided,
	// and with [CodeNotFound] if it does not exist. After an error for lack of capacity, the request still waits.
	Decide(ctx context.Context, id string, d ApprovalDecision) (Approval, error)
}

// Approved waits until an operator has approved the session, and returns it. It polls once a second. A session that needs no approval
// is returned immediately. The error is [CodePolicyDenied] if the session was denied, or its approval expired.
func Approved(ctx context.Context, sessions Sessions, s Session) (Session, error) {
	if s.Approval == nil {
		return s, nil
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for s.State == SessionStarting {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s, context.Cause(ctx)
		}
		got, err := sessions.Get(ctx, s.ID)
		if err != nil {
			return s, err
		}
		s = got
	}
	if !s.State.Ended() {
		return s, nil
	}
	code := CodePolicyDenied
	if s.Approval != nil && s.Approval.State != ApprovalDenied && s.Approval.State != ApprovalExpired {
		code = CodeConflict
	}
	return s, &Error{Code: code, Message: "the session ended before it could be used: " + s.Message, Details: map[string]any{"session_id": s.ID, "state": string(s.State)}}
}
