package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

type tokenPath struct {
	ID string `path:"token_id" doc:"The token's id"`
}

type tokenList struct {
	Items []belljar.Token `json:"items"`
}

func (d *Door) tokens() {
	handle(d, huma.Operation{
		OperationID: "admin-list-tokens", Method: http.MethodGet, Path: api.Prefix + "/admin/tokens", Tags: []string{"admin"},
		Summary: "List the API keys",
	}, func(c *call, _ *none, _ *none) (tokenList, error) {
		found, err := c.Admin().Tokens(c)
		return tokenList{filled(found)}, err
	})
	handle(d, huma.Operation{
		OperationID: "admin-create-token", Method: http.MethodPost, Path: api.Prefix + "/admin/tokens", Tags: []string{"admin"},
		Summary:     "Make an API key",
		Description: "The key is in secret, and is never shown again.",
	}, func(c *call, _ *none, body *belljar.TokenSpec) (belljar.Token, error) {
		return c.Admin().CreateToken(c, *body)
	})
	command(d, huma.Operation{
		OperationID: "admin-revoke-token", Method: http.MethodDelete, Path: api.Prefix + "/admin/tokens/{token_id}", Tags: []string{"admin"},
		Summary: "Revoke an API key",
	}, func(c *call, p *tokenPath) error {
		return c.Admin().RevokeToken(c, p.ID)
	})
}
