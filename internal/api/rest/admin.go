package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

type adminFilter struct {
	UserID string `query:"user_id" doc:"Only runs of this user"`
	RunFilter
}

type keyFilter struct {
	Endpoint string `query:"endpoint" enum:"runs,sessions,any" doc:"Only keys of this endpoint; default: any"`
	UserID   string `query:"user_id" doc:"Only keys of this user"`
	Page
}

type usageFilter struct {
	Limit int `query:"limit" minimum:"1" maximum:"200" doc:"Most users; default 50"`
}

type userPath struct {
	ID string `path:"user_id" doc:"The user's id"`
}

type keyList struct {
	Items []belljar.KeyEntry `json:"items"`
}

type usageList struct {
	Items []belljar.UserUsage `json:"items"`
}

// adminRun is a run for operators. The fields of docs/compatibility.md#administration are always present, null if unset.
type adminRun struct {
	belljar.Run
	ImageDigest *string `json:"image_digest"`
	Message     *string `json:"message"`
}

func operated(run belljar.Run) adminRun {
	return adminRun{Run: run, ImageDigest: orNull(run.ImageDigest), Message: orNull(run.Message)}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// adminPage is a page of all users' runs.
type adminPage struct {
	Items   []adminRun `json:"items"`
	Total   int        `json:"total"`
	Limit   int        `json:"limit"`
	Offset  int        `json:"offset"`
	HasMore bool       `json:"has_more"`
}

// detailedRun is a run with its artifacts.
type detailedRun struct {
	belljar.Run
	ImageDigest *string    `json:"image_digest"`
	Message     *string    `json:"message"`
	Artifacts   []artifact `json:"artifacts"`
}

func (d *Door) admin() {
	handle(d, huma.Operation{
		OperationID: "admin-list-runs", Method: http.MethodGet, Path: api.Prefix + "/admin/runs", Tags: []string{"admin"},
		Summary: "List the runs of all users",
	}, func(c *call, p *adminFilter, _ *none) (adminPage, error) {
		q, err := p.query()
		if err != nil {
			return adminPage{}, err
		}
		q.UserID = p.UserID
		list, err := c.Admin().Runs(c, q)
		page := adminPage{Items: make([]adminRun, len(list.Items)), Total: list.Total, Limit: list.Limit, Offset: list.Offset, HasMore: list.HasMore}
		for i, run := range list.Items {
			page.Items[i] = operated(run)
		}
		return page, err
	})
	handle(d, huma.Operation{
		OperationID: "admin-get-run", Method: http.MethodGet, Path: api.Prefix + "/admin/runs/{run_id}", Tags: []string{"admin"},
		Summary: "Get a run of any user, with its artifacts",
	}, func(c *call, p *runPath, _ *none) (detailedRun, error) {
		run, err := c.Runs().Get(c, p.ID)
		if err != nil {
			return detailedRun{}, err
		}
		found, err := c.Artifacts().List(c, p.ID)
		r := operated(run)
		return detailedRun{Run: run, ImageDigest: r.ImageDigest, Message: r.Message, Artifacts: d.listed(p.ID, found)}, err
	})
	handle(d, huma.Operation{
		OperationID: "admin-list-idempotency", Method: http.MethodGet, Path: api.Prefix + "/admin/idempotency", Tags: []string{"admin"},
		Summary: "List the idempotency keys in force",
	}, func(c *call, p *keyFilter, _ *none) (keyList, error) {
		q := belljar.KeyQuery{Endpoint: p.Endpoint, UserID: p.UserID, Limit: p.Limit, Offset: p.Offset}
		if q.Endpoint == "any" {
			q.Endpoint = ""
		}
		found, err := c.Admin().Idempotency(c, q)
		return keyList{filled(found)}, err
	})
	handle(d, huma.Operation{
		OperationID: "admin-list-usage", Method: http.MethodGet, Path: api.Prefix + "/admin/usage", Tags: []string{"admin"},
		Summary: "List the users with the highest usage",
	}, func(c *call, p *usageFilter, _ *none) (usageList, error) {
		found, err := c.Admin().Usage(c, p.Limit)
		return usageList{filled(found)}, err
	})
	handle(d, huma.Operation{
		OperationID: "admin-get-metrics", Method: http.MethodGet, Path: api.Prefix + "/admin/metrics", Tags: []string{"admin"},
		Summary:     "Get the metrics as JSON",
		Description: "By name, with a series for each set of labels. Of a histogram there are the sum and the count. GET /metrics has all of them for Prometheus.",
	}, func(*call, *none, *none) (map[string][]event.Series, error) {
		if d.opts.Series == nil {
			return map[string][]event.Series{}, nil
		}
		return d.opts.Series()
	})
	handle(d, huma.Operation{
		OperationID: "admin-get-quota", Method: http.MethodGet, Path: api.Prefix + "/admin/quotas/{user_id}", Tags: []string{"admin"},
		Summary: "Get the quota in force for a user",
	}, func(c *call, p *userPath, _ *none) (belljar.Quota, error) {
		return c.Admin().Quota(c, p.ID)
	})
	handle(d, huma.Operation{
		OperationID: "admin-set-quota", Method: http.MethodPut, Path: api.Prefix + "/admin/quotas/{user_id}", Tags: []string{"admin"},
		Summary:     "Set a user's quota",
		Description: "Replaces the whole quota. 0, or a field that is left out, means no limit.",
	}, func(c *call, p *userPath, body *api.QuotaSpec) (belljar.Quota, error) {
		quota := belljar.Quota(*body)
		quota.Own = true
		return quota, c.Admin().SetQuota(c, p.ID, &quota)
	})
	command(d, huma.Operation{
		OperationID: "admin-delete-quota", Method: http.MethodDelete, Path: api.Prefix + "/admin/quotas/{user_id}", Tags: []string{"admin"},
		Summary: "Remove a user's own quota, so that the default applies",
	}, func(c *call, p *userPath) error { return c.Admin().SetQuota(c, p.ID, nil) })
}
