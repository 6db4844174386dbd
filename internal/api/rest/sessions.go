package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Idempotent is the header of a request that is safe to repeat.
type Idempotent struct {
	Key string `header:"Idempotency-Key" doc:"Repeats of this request with the same key, within the time that the server keeps keys, return the first one's answer; at most 128 characters"`
}

type sessionPath struct {
	ID string `path:"session_id" doc:"The session's id"`
}

// HibernateRequest is a HibernateSpec that may be absent.
type HibernateRequest struct{ belljar.HibernateSpec }

func (HibernateRequest) spare() {}

type sessionQuery struct {
	All       bool   `query:"all" doc:"Whether to list ended sessions, too"`
	KeyPrefix string `query:"key_prefix" doc:"Only sessions whose scope_key has this prefix" example:"workflow:run_123:"`
	Page
}

// SessionOpening is a SessionSpec whose fields are optional, except the scope.
type SessionOpening struct {
	SpecVersion string `json:"spec_version,omitempty" doc:"Default: the newest that this server supports"`
	BaseImage   string `json:"base_image,omitempty" doc:"Default: the server's default image"`
	belljar.SessionSpec
}

func (o *SessionOpening) spec() belljar.SessionSpec {
	spec := o.SessionSpec
	spec.SpecVersion, spec.BaseImage = o.SpecVersion, o.BaseImage
	return spec
}

// OpenedSession is a session with the fields of sandbox_open.
type OpenedSession struct {
	belljar.Session
	SandboxID string `json:"sandbox_id" doc:"The same as session_id"`
	Image     string `json:"image" doc:"The same as base_image"`
	Workdir   string `json:"workdir" doc:"Working directory of its runs, and folder of its files"`
	Created   bool   `json:"created" doc:"Whether this request made it; an existing session is returned unchanged"`
}

// ClosedSessions are the sessions that a request closed.
type ClosedSessions struct {
	Closed []string `json:"closed" doc:"Their ids, the oldest first"`
}

// Page selects a part of a list. It is exported because huma ignores unexported embedded structs.
type Page struct {
	Limit  int `query:"limit" minimum:"1" maximum:"200" doc:"Entries per page; default 50"`
	Offset int `query:"offset" minimum:"0" doc:"Entries to skip"`
}

func (d *Door) sessions() {
	handle(d, huma.Operation{
		OperationID: "create-session", Method: http.MethodPost, Path: api.Prefix + "/sessions", Tags: []string{"sessions"},
		Summary:     "Create a session",
		Description: "Makes a session with its sandbox, and answers when it is ready. One that needs an approval is answered at once, starting, with its approval: get it again until that is decided.",
	}, func(c *call, p *Idempotent, body *belljar.SessionSpec) (belljar.Session, error) {
		if err := checkVersion(d, body.SpecVersion); err != nil {
			return belljar.Session{}, err
		}
		return c.Sessions().Create(c, belljar.SessionRequest{SessionSpec: *body, IdempotencyKey: p.Key})
	})
	handle(d, huma.Operation{
		OperationID: "open-session", Method: http.MethodPost, Path: api.Prefix + "/sessions/open", Tags: []string{"sessions"},
		Summary: "Open a session by its scope",
		Description: "Answers with the caller's active session of that scope, or makes one. Concurrent requests make one session. The request does not " +
			"change an existing session. The key `isolated` makes a new session each time.",
	}, func(c *call, p *Idempotent, body *SessionOpening) (OpenedSession, error) {
		if body.SpecVersion != "" {
			if err := checkVersion(d, body.SpecVersion); err != nil {
				return OpenedSession{}, err
			}
		}
		s, created, err := c.Sessions().Open(c, belljar.SessionRequest{SessionSpec: body.spec(), IdempotencyKey: p.Key})
		return OpenedSession{Session: s, SandboxID: s.ID, Image: s.BaseImage, Workdir: belljar.WorkspaceDir, Created: created}, err
	})
	handle(d, huma.Operation{
		OperationID: "close-sessions", Method: http.MethodPost, Path: api.Prefix + "/sessions/close", Tags: []string{"sessions"},
		Summary: "End sessions by their scope",
		Description: "Ends all sessions of the caller whose scope has the prefix, such as at the end of a workflow. Their runs are cancelled. " +
			"Their sandboxes and workspaces are removed before the answer or, with `retain_seconds`, after that time. Until then they can be inspected " +
			"by id, and a new session can have their scope.",
	}, func(c *call, _ *none, body *belljar.CloseRequest) (ClosedSessions, error) {
		closed, err := c.Sessions().CloseAll(c, *body)
		return ClosedSessions{filled(closed)}, err
	})
	handle(d, huma.Operation{
		OperationID: "list-sessions", Method: http.MethodGet, Path: api.Prefix + "/sessions", Tags: []string{"sessions"},
		Summary:     "List sessions",
		Description: "The caller's sessions, newest first.",
	}, func(c *call, p *sessionQuery, _ *none) (belljar.SessionPage, error) {
		list, err := c.Sessions().List(c, belljar.SessionQuery{All: p.All, KeyPrefix: p.KeyPrefix, Limit: p.Limit, Offset: p.Offset})
		list.Items = filled(list.Items)
		return list, err
	})
	handle(d, huma.Operation{
		OperationID: "get-session", Method: http.MethodGet, Path: api.Prefix + "/sessions/{session_id}", Tags: []string{"sessions"},
		Summary:     "Get a session",
		Description: "Ended sessions remain readable for a while.",
	}, func(c *call, p *sessionPath, _ *none) (belljar.Session, error) {
		return c.Sessions().Get(c, p.ID)
	})
	handle(d, huma.Operation{
		OperationID: "hibernate-session", Method: http.MethodPost, Path: api.Prefix + "/sessions/{session_id}/hibernate", Tags: []string{"sessions"},
		Summary: "Hibernate a session",
		Description: "Its memory and processes are saved where its runtime can do that and it has no secrets, else its files, and the directory, variables and functions of its shell. " +
			"It has no sandbox until the next request that needs one. " +
			"A session in which something runs is refused, unless force ends that; so is one that was given a secret file.",
	}, func(c *call, p *sessionPath, body *HibernateRequest) (belljar.Session, error) {
		return c.Sessions().Hibernate(c, p.ID, body.HibernateSpec)
	})
	handle(d, huma.Operation{
		OperationID: "get-session-network", Method: http.MethodGet, Path: api.Prefix + "/sessions/{session_id}/network", Tags: []string{"sessions"},
		Summary: "Get what a session may reach",
	}, func(c *call, p *sessionPath, _ *none) (belljar.NetworkSpec, error) {
		return c.Sessions().Network(c, p.ID)
	})
	handle(d, huma.Operation{
		OperationID: "set-session-network", Method: http.MethodPut, Path: api.Prefix + "/sessions/{session_id}/network", Tags: []string{"sessions"},
		Summary: "Change what a session may reach",
		Description: "Narrows or widens it within the server's rules, at once: connections that the new rules do not allow are cut. " +
			"Answers with what is in force.",
	}, func(c *call, p *sessionPath, body *belljar.NetworkSpec) (belljar.NetworkSpec, error) {
		return c.Sessions().SetNetwork(c, p.ID, *body)
	})
	command(d, huma.Operation{
		OperationID: "delete-session", Method: http.MethodDelete, Path: api.Prefix + "/sessions/{session_id}", Tags: []string{"sessions"},
		Summary:     "End a session",
		Description: "Its runs are cancelled; its sandbox and workspace are removed before the answer. Ending it again has no effect.",
	}, func(c *call, p *sessionPath) error {
		return c.Sessions().Delete(c, p.ID)
	})
}

// filled returns items, or an empty list for nil.
func filled[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}
