package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

type approvalFilter struct {
	State  string `query:"state" enum:"pending,approved,denied,expired,withdrawn" doc:"Only approvals in this state"`
	UserID string `query:"user_id" doc:"Only requests of this user"`
	Page
}

type approvalPath struct {
	ID string `path:"approval_id" doc:"The approval's id, which is that of the run or session"`
}

// addApprovals adds the operations about approvals.
func addApprovals(d *Door) {
	handle(d, huma.Operation{
		OperationID: "admin-list-approvals", Method: http.MethodGet, Path: api.Prefix + "/admin/approvals", Tags: []string{"admin"},
		Summary: "List the requests that wait for an approval, or waited", Description: "Newest first.",
	}, func(c *call, p *approvalFilter, _ *none) (belljar.ApprovalPage, error) {
		list, err := c.Admin().Approvals(c, belljar.ApprovalQuery{State: belljar.ApprovalState(p.State), UserID: p.UserID, Limit: p.Limit, Offset: p.Offset})
		list.Items = filled(list.Items)
		return list, err
	})
	handle(d, huma.Operation{
		OperationID: "admin-decide-approval", Method: http.MethodPost, Path: api.Prefix + "/admin/approvals/{approval_id}", Tags: []string{"admin"},
		Summary: "Approve or deny a request that waits",
		Description: "An approved request continues, and a denied one ends; its user sees the note. A second decision is a conflict, and " +
			"details name the operator and the time. If the server has no room for the request now, it still waits, and can be approved later.",
	}, func(c *call, p *approvalPath, body *belljar.ApprovalDecision) (belljar.Approval, error) {
		return c.Admin().Decide(c, p.ID, *body)
	})
}

// approvalWords are the descriptions of an approval's properties, as [words].
func approvalWords() map[string]string {
	const approval = "The approval that it needs, or needed, before it may begin; absent if it needs none"
	return map[string]string{
		"approval": approval, "Approval.id": "Its id: that of the run or session", "Approval.kind": "run or session", "Approval.state": "Its state",
		"Approval.reasons": "The rules of SANDBOX_APPROVAL that the request matches, each with the value that the request sets", "requested_at": "When it was requested",
		"Approval.expires_at": "When it expires without a decision", "decided_at": "When it was decided, or ended without a decision",
		"decided_by": "The operator who decided", "Approval.note": "The operator's note", "Approval.user_id": "The user who sent the request", "Approval.source": "Where the request came from: mcp, cli, rest …",
		"Approval.session_id": "The session of a run in one", "Approval.command": "A run's command, at most its first 16 KiB", "Approval.base_image": "The image",
		"Approval.network": "What the sandbox may reach", "Approval.cpu": "Cores", "Approval.memory_mb": "Memory in MiB",
		"Approval.timeout_sec": "Time of the run, or of the session's runs that set none", "fingerprint": "SHA-256 of the request that the decision covers",
		"decision": "approve or deny", "ApprovalDecision.note": "Message for the user who sent the request; at most 1000 bytes",
	}
}
