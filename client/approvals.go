package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/belljar/belljar"
)

// Approvals lists the requests that wait, or waited, for an operator.
func (a admin) Approvals(ctx context.Context, q belljar.ApprovalQuery) (belljar.ApprovalPage, error) {
	v := url.Values{}
	if q.State != "" {
		v.Set("state", string(q.State))
	}
	if q.UserID != "" {
		v.Set("user_id", q.UserID)
	}
	paging(v, q.Limit, q.Offset)
	var page belljar.ApprovalPage
	return page, a.c.get(ctx, &page, v, "admin", "approvals")
}

// Decide approves or denies a request. It is not retried after a broken connection, because the retry would fail with "already
// decided".
func (a admin) Decide(ctx context.Context, id string, d belljar.ApprovalDecision) (belljar.Approval, error) {
	var decided belljar.Approval
	return decided, a.c.ask(ctx, request{method: http.MethodPost, path: route("admin", "approvals", id), send: d, once: true}, &decided)
}
