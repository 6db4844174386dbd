package rest

import (
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

type terminalPath struct {
	ID string `path:"terminal_id" doc:"The terminal's id"`
}

// TerminalList is a session's terminals.
type TerminalList struct {
	Items []belljar.Terminal `json:"items"`
}

func (d *Door) terminals() {
	const of, one = api.Prefix + "/sessions/{session_id}/terminals", api.Prefix + "/terminals/{terminal_id}"
	handle(d, huma.Operation{
		OperationID: "open-terminal", Method: http.MethodPost, Path: of, Tags: []string{"terminals"},
		Summary:     "Open a terminal",
		Description: "Starts a terminal without attaching to it; it ends unless a client attaches within the reattach window. Attach by WebSocket: GET " + api.Prefix + "/terminals?terminal_id=…",
	}, func(c *call, p *sessionPath, body *belljar.TerminalSpec) (belljar.Terminal, error) {
		return c.Terminals().Open(c, p.ID, *body)
	})
	handle(d, huma.Operation{
		OperationID: "list-terminals", Method: http.MethodGet, Path: of, Tags: []string{"terminals"},
		Summary:     "List a session's terminals",
		Description: "Oldest first. A WebSocket request opens a new terminal and attaches to it, with the parameters cols, rows, session_name, shared and command (repeated).",
	}, func(c *call, p *sessionPath, _ *none) (TerminalList, error) {
		list, err := c.Terminals().List(c, p.ID)
		return TerminalList{filled(list)}, err
	})
	if d.opts.Terminal != nil {
		last := &d.routes[len(d.routes)-1]
		list := last.handler
		last.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if api.IsWebSocket(r) {
				d.opts.Terminal(w, r)
				return
			}
			if opens(r) {
				api.OfferWebSocket(w, r)
				api.Fail(w, r, &belljar.Error{
					Code: belljar.CodeInvalidRequest, Message: "the request for a new terminal has no Upgrade header",
					Hint: "connect by WebSocket; a proxy in front of the server must pass Upgrade and Connection on", Details: map[string]any{"field": "Upgrade"},
				})
				return
			}
			list.ServeHTTP(w, r)
		})
	}
	handle(d, huma.Operation{
		OperationID: "get-terminal", Method: http.MethodGet, Path: one, Tags: []string{"terminals"},
		Summary: "Get a terminal",
	}, func(c *call, p *terminalPath, _ *none) (belljar.Terminal, error) {
		return c.Terminals().Get(c, p.ID)
	})
	command(d, huma.Operation{
		OperationID: "close-terminal", Method: http.MethodDelete, Path: one, Tags: []string{"terminals"},
		Summary:     "Close a terminal",
		Description: "Its program and every process that it started have ended when this answers.",
	}, func(c *call, p *terminalPath) error {
		return c.Terminals().Close(c, p.ID)
	})
}

// opens reports whether a request has parameters of a new terminal, which a list does not take: a proxy has dropped
// its Upgrade header.
func opens(r *http.Request) bool {
	return slices.ContainsFunc([]string{"cols", "rows", "session_name", "shared", "command"}, r.URL.Query().Has)
}
