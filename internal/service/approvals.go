package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// Approvals lists the requests that wait, or waited, for an operator.
func (v admin) Approvals(ctx context.Context, q belljar.ApprovalQuery) (belljar.ApprovalPage, error) {
	page := belljar.ApprovalPage{Items: []belljar.Approval{}}
	if err := v.allowed("see approvals"); err != nil {
		return page, err
	}
	if err := q.Validate(); err != nil {
		return page, err
	}
	if err := checkPage(&q.Limit, q.Offset); err != nil {
		return page, err
	}
	return v.service.desk.List(ctx, q)
}

// Decide approves or denies a request.
func (v admin) Decide(ctx context.Context, id string, d belljar.ApprovalDecision) (belljar.Approval, error) {
	if err := v.allowed("decide about approvals"); err != nil {
		return belljar.Approval{}, err
	}
	a, err := v.service.desk.Decide(ctx, v.caller, id, d)
	if err != nil {
		return a, fault.As("decide about an approval", err)
	}
	return a, nil
}
