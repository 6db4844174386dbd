package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

type adminFilter struct {
	UserID string `query:"user_id" doc:"Runs of this user"`
	RunFilter
}

type keyFilter struct {
	Endpoint string `query:"endpoint" enum:"runs,sessions,any" doc:"Keys of this endpoint; any if it is not given"`
	UserID   string `query:"user_id" doc:"Keys of this user"`
	Page
}

type usageFilter struct {
	Limit int `query:"limit" minimum:"1" maximum:"200" doc:"How many users; 50 if it is not given"`
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

// detailedRun is a run as operators see it.
type detailedRun struct {
	belljar.Run
	Artifacts []artifact `json:"artifacts"`
}

func (d *Door) admin() {
	handle(d, huma.Operation{
		OperationID: "admin-list-runs", Method: http.MethodGet, Path: api.Prefix + "/admin/runs", Tags: []string{"admin"},
		Summary: "List everybody's runs",
	}, func(c *call, p *adminFilter, _ *none) (belljar.RunPage, error) {
		q, err := p.query()
		if err != nil {
			return belljar.RunPage{}, err
		}
		q.UserID = p.UserID
		list, err := c.Admin().Runs(c, q)
		list.Items = filled(list.Items)
		return list, err
	})
	handle(d, huma.Operation{
		OperationID: "admin-get-run", Method: http.MethodGet, Path: api.Prefix + "/admin/runs/{run_id}", Tags: []string{"admin"},
		Summary: "Get anybody's run, with its artifacts",
	}, func(c *call, p *runPath, _ *none) (detailedRun, error) {
		run, err := c.Runs().Get(c, p.ID)
		if err != nil {
			return detailedRun{}, err
		}
		found, err := c.Artifacts().List(c, p.ID)
		return detailedRun{Run: run, Artifacts: d.listed(p.ID, found)}, err
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
		Summary: "List the users who use most",
	}, func(c *call, p *usageFilter, _ *none) (usageList, error) {
		found, err := c.Admin().Usage(c, p.Limit)
		return usageList{filled(found)}, err
	})
	handle(d, huma.Operation{
		OperationID: "admin-get-quota", Method: http.MethodGet, Path: api.Prefix + "/admin/quotas/{user_id}", Tags: []string{"admin"},
		Summary: "Get the quota in force for a user",
	}, func(c *call, p *userPath, _ *none) (belljar.Quota, error) {
		return c.Admin().Quota(c, p.ID)
	})
	handle(d, huma.Operation{
		OperationID: "admin-set-quota", Method: http.MethodPut, Path: api.Prefix + "/admin/quotas/{user_id}", Tags: []string{"admin"},
		Summary:     "Give a user a quota of his own",
		Description: "A field that is 0 or left out is no limit of that kind.",
	}, func(c *call, p *userPath, body *belljar.Quota) (belljar.Quota, error) {
		if err := c.Admin().SetQuota(c, p.ID, *body); err != nil {
			return belljar.Quota{}, err
		}
		return c.Admin().Quota(c, p.ID)
	})
}
