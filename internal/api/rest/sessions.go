package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Idempotent is the header of a request that may be repeated.
type Idempotent struct {
	Key string `header:"Idempotency-Key" doc:"Repeats of this request with the same key, within the time that the server keeps keys, return the first one's answer; at most 128 characters"`
}

type sessionPath struct {
	ID string `path:"session_id" doc:"The session's id"`
}

type sessionQuery struct {
	All bool `query:"all" doc:"Also those that have ended"`
	Page
}

// Page is which part of a list is wanted. Exported, like the other parts of parameters, because huma looks for them so.
type Page struct {
	Limit  int `query:"limit" minimum:"1" maximum:"200" doc:"Entries on a page; 50 if it is not given"`
	Offset int `query:"offset" minimum:"0" doc:"Entries to skip"`
}

func (d *Door) sessions() {
	handle(d, huma.Operation{
		OperationID: "create-session", Method: http.MethodPost, Path: api.Prefix + "/sessions", Tags: []string{"sessions"},
		Summary:     "Create a session",
		Description: "Makes a session and its sandbox, and answers when it can be used.",
	}, func(c *call, p *Idempotent, body *belljar.SessionSpec) (belljar.Session, error) {
		return c.Sessions().Create(c, belljar.SessionRequest{SessionSpec: *body, IdempotencyKey: p.Key})
	})
	handle(d, huma.Operation{
		OperationID: "list-sessions", Method: http.MethodGet, Path: api.Prefix + "/sessions", Tags: []string{"sessions"},
		Summary:     "List sessions",
		Description: "The caller's sessions, newest first.",
	}, func(c *call, p *sessionQuery, _ *none) (belljar.SessionPage, error) {
		list, err := c.Sessions().List(c, belljar.SessionQuery{All: p.All, Limit: p.Limit, Offset: p.Offset})
		list.Items = filled(list.Items)
		return list, err
	})
	handle(d, huma.Operation{
		OperationID: "get-session", Method: http.MethodGet, Path: api.Prefix + "/sessions/{session_id}", Tags: []string{"sessions"},
		Summary:     "Get a session",
		Description: "Sessions that have ended can be asked about for a while.",
	}, func(c *call, p *sessionPath, _ *none) (belljar.Session, error) {
		return c.Sessions().Get(c, p.ID)
	})
	command(d, huma.Operation{
		OperationID: "delete-session", Method: http.MethodDelete, Path: api.Prefix + "/sessions/{session_id}", Tags: []string{"sessions"},
		Summary:     "End a session",
		Description: "Its runs are cancelled; its sandbox and workspace are gone when this answers. Ending it again changes nothing.",
	}, func(c *call, p *sessionPath) error {
		return c.Sessions().Delete(c, p.ID)
	})
}

// filled is items as JSON needs it: a list, even if it is empty.
func filled[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}
