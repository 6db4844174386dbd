package apitest

import (
	"context"

	"github.com/belljar/belljar"
)

func (admin) Approvals(_ context.Context, q belljar.ApprovalQuery) (belljar.ApprovalPage, error) {
	return belljar.ApprovalPage{Items: []belljar.Approval{pending()}, Total: 1, Limit: 50, Offset: q.Offset}, nil
}

func (admin) Decide(_ context.Context, id string, d belljar.ApprovalDecision) (belljar.Approval, error) {
	a, at := pending(), then()
	a.State, a.DecidedBy, a.DecidedAt, a.Note = belljar.ApprovalApproved, "op", &at, d.Note
	return a, known(id)
}

func pending() belljar.Approval {
	return belljar.Approval{
		ID: ID, Kind: "run", State: belljar.ApprovalPending, Reasons: []string{"cpu>2: 4"}, RequestedAt: then(), ExpiresAt: then(), UserID: "alice",
	}
}
