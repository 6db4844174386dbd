package belljar

import (
	"context"
	"time"
)

// ApprovalState is where an approval stands.
type ApprovalState string

// The states of an approval. All but the first are final.
const (
	ApprovalPending   ApprovalState = "pending"
	ApprovalApproved  ApprovalState = "approved"
	ApprovalDenied    ApprovalState = "denied"
	ApprovalExpired   ApprovalState = "expired"   // no operator decided in time
	ApprovalWithdrawn ApprovalState = "withdrawn" // the run or the session ended before a decision
)

// Approval is a request that waits, or waited, for a person (docs/approvals.md). Its id is that of the run or session that it is for.
type Approval struct {
	ID    string        `json:"id"`
	Kind  string        `json:"kind"` // run | session
	State ApprovalState `json:"state"`
	// Reasons are the rules of SANDBOX_APPROVAL that the request matches, each with the value that the request sets.
	Reasons     []string  `json:"reasons"`
	RequestedAt time.Time `json:"requested_at"`
	ExpiresAt   time.Time `json:"expires_at"`
	// DecidedAt is when it left the state pending, DecidedBy the user who approved or denied, Note what they said.
	DecidedAt *time.Time `json:"decided_at,omitempty"`
	DecidedBy string     `json:"decided_by,omitempty"`
	Note      string     `json:"note,omitempty"`

	UserID    string      `json:"user_id"`
	Source    string      `json:"source,omitempty"`     // mcp, cli, rest …
	SessionID string      `json:"session_id,omitempty"` // of a run in a session
	Command   []string    `json:"command,omitempty"`    // of a run, at most its first 16 KiB
	BaseImage string      `json:"base_image,omitempty"`
	Network   NetworkSpec `json:"network,omitzero"` // what the sandbox may reach; nothing for a run in a session
	CPU       float64     `json:"cpu,omitempty"`
	MemoryMB  int         `json:"memory_mb,omitempty"`
	// TimeoutSec is that of the run, or of the session's runs that set none.
	TimeoutSec float64 `json:"timeout_sec,omitempty"`
	// Fingerprint is the SHA-256 of the request: the decision is about that alone.
	Fingerprint string `json:"fingerprint"`
}

// The decisions.
const (
	DecisionApprove = "approve"
	DecisionDeny    = "deny"
)

// ApprovalDecision decides about a request that waits.
type ApprovalDecision struct {
	Decision string `json:"decision"`       // approve | deny
	Note     string `json:"note,omitempty"` // for the user who asked; at most 1000 bytes
}

// maxNote is the most bytes of the note of a decision.
const maxNote = 1000

// Validate checks what needs no server.
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

// Validate checks what needs no server, apart from the page.
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

// Approvals is how operators decide about requests that wait for a person.
type Approvals interface {
	// Approvals lists them, newest first.
	Approvals(ctx context.Context, q ApprovalQuery) (ApprovalPage, error)
	// Decide approves or denies a request, and returns its approval. [CodeConflict] if it was decided before, [CodeNotFound] if there
	// is none. After an error that says the server has no room for it, the request still waits.
	Decide(ctx context.Context, id string, d ApprovalDecision) (Approval, error)
}

// Approved waits until a session that an operator must approve can be used, and returns it. It asks once a second; one that needs no
// approval it returns at once. [CodePolicyDenied] if the session was denied, or its approval expired.
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
