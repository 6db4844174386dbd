package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/belljar/belljar"
)

// node implements [belljar.Node].
type node struct{ c *Client }

// Runtimes describes the server's runtimes.
func (n node) Runtimes(ctx context.Context) (belljar.Discovery, error) {
	var d belljar.Discovery
	return d, n.c.get(ctx, &d, nil, "runtimes")
}

// Me describes the caller and their limits.
func (n node) Me(ctx context.Context) (belljar.Me, error) {
	var me belljar.Me
	return me, n.c.get(ctx, &me, nil, "me")
}

// CheckNetwork reports how a URL would be handled.
func (n node) CheckNetwork(ctx context.Context, q belljar.NetworkQuery) (belljar.NetworkCheck, error) {
	var check belljar.NetworkCheck
	return check, n.c.ask(ctx, request{method: http.MethodPost, path: route("network", "check"), send: q}, &check)
}

// presetTime is added to Options.Silence for requests that wait until an image's tools have named their indexes.
const presetTime = 2 * time.Minute

// NetworkPresets returns the expansion of each preset in an image.
func (n node) NetworkPresets(ctx context.Context, image string) ([]belljar.NetworkPreset, error) {
	v := url.Values{}
	if image != "" {
		v.Set("base_image", image)
	}
	var list struct {
		Items []belljar.NetworkPreset `json:"items"`
	}
	err := n.c.ask(ctx, request{method: http.MethodGet, path: route("network", "presets"), query: v, longer: presetTime}, &list)
	return list.Items, err
}

// admin implements [belljar.Admin].
type admin struct{ c *Client }

// Runs lists all users' runs.
func (a admin) Runs(ctx context.Context, q belljar.RunQuery) (belljar.RunPage, error) {
	var page belljar.RunPage
	return page, a.c.get(ctx, &page, queryOf(q), "admin", "runs")
}

// Idempotency lists the idempotency keys in force.
func (a admin) Idempotency(ctx context.Context, q belljar.KeyQuery) ([]belljar.KeyEntry, error) {
	v := url.Values{}
	if q.Endpoint != "" {
		v.Set("endpoint", q.Endpoint)
	}
	if q.UserID != "" {
		v.Set("user_id", q.UserID)
	}
	paging(v, q.Limit, q.Offset)
	return items[belljar.KeyEntry](ctx, a.c, v, "admin", "idempotency")
}

// Usage lists the users with the highest usage.
func (a admin) Usage(ctx context.Context, limit int) ([]belljar.UserUsage, error) {
	v := url.Values{}
	paging(v, limit, 0)
	return items[belljar.UserUsage](ctx, a.c, v, "admin", "usage")
}

// Quota returns the quota in force for a user.
func (a admin) Quota(ctx context.Context, userID string) (belljar.Quota, error) {
	var q belljar.Quota
	return q, a.c.get(ctx, &q, nil, "admin", "quotas", userID)
}

// SetQuota sets a user's quota, or removes it if it is nil.
func (a admin) SetQuota(ctx context.Context, userID string, q *belljar.Quota) error {
	if q == nil {
		return a.c.ask(ctx, request{method: http.MethodDelete, path: route("admin", "quotas", userID)}, nil)
	}
	return a.c.ask(ctx, request{method: http.MethodPut, path: route("admin", "quotas", userID), send: q}, nil)
}

// CreateToken creates an API key. It is not retried after a broken connection, which could create two.
func (a admin) CreateToken(ctx context.Context, spec belljar.TokenSpec) (belljar.Token, error) {
	var token belljar.Token
	return token, a.c.ask(ctx, request{method: http.MethodPost, path: route("admin", "tokens"), send: spec, once: true}, &token)
}

// Tokens lists the API keys.
func (a admin) Tokens(ctx context.Context) ([]belljar.Token, error) {
	return items[belljar.Token](ctx, a.c, nil, "admin", "tokens")
}

// RevokeToken revokes an API key.
func (a admin) RevokeToken(ctx context.Context, id string) error {
	return a.c.ask(ctx, request{method: http.MethodDelete, path: route("admin", "tokens", id)}, nil)
}
