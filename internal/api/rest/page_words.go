package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar/internal/api"
)

// declareLogin adds the sign-ins of package auth to the document.
func declareLogin(doc *huma.OpenAPI) {
	const path = api.Prefix + "/login"
	expires := timeField("When it ends")
	for _, op := range []*huma.Operation{
		{OperationID: "login", Method: http.MethodPost, Path: path, Summary: "Sign in", Security: []map[string][]string{{}},
			Description: "Exchanges a one-time code, or any credential, for a token that is sent as `Authorization: Bearer …`. It has the same user and role, " +
				"and ends after 12 hours, or with the credential that it was made with. A token of a sign-in makes no other one.",
			RequestBody: jsonBody(objectOf(fields{
				"code": textField("A one-time code"), "key": textField("An API key or a JWT, in place of a code"),
			})),
			Responses: jsonResponse("The sign-in", objectOf(fields{
				"token": textField("The token, shown once"), "expires_at": expires, "user_id": textField(""), "role": {Type: "string", Enum: []any{"user", "admin"}},
			}, "token", "expires_at", "user_id", "role"))},
		{OperationID: "logout", Method: http.MethodDelete, Path: path, Summary: "Sign out",
			Description: "Ends the sign-in whose token authenticates the request.",
			Responses:   map[string]*huma.Response{"204": {Description: "The token is invalid from now on"}}},
		{OperationID: "create-login-code", Method: http.MethodPost, Path: path + "/codes", Summary: "Make a one-time code",
			Description: "For the caller's own user and role. It signs in once, within 5 minutes.",
			Responses: jsonResponse("The code", objectOf(fields{
				"code": textField(""), "expires_at": expires, "url": textField("The web page's address, which signs in with the code; absent without the page"),
			}, "code", "expires_at"))},
	} {
		op.Tags = []string{"login"}
		doc.AddOperation(op)
	}
}

// declareUsage adds the samples of package stream to the document.
func declareUsage(doc *huma.OpenAPI, sample *huma.Schema) {
	for _, of := range []struct{ id, noun, path, param string }{
		{"watch-run-usage", "run", "/runs/{run_id}/usage", "run_id"}, {"watch-session-usage", "session", "/sessions/{session_id}/usage", "session_id"},
	} {
		doc.AddOperation(&huma.Operation{
			OperationID: of.id, Method: http.MethodGet, Path: api.Prefix + of.path, Tags: []string{"streams"}, Security: byTicket(),
			Summary: "Watch what a " + of.noun + "'s sandbox uses",
			Description: "With `Accept: text/event-stream`: an event usage about once a second, each a UsageSample, and an event end when the " + of.noun + " has ended. " +
				"Otherwise one sample as JSON. Samples are taken only while a client watches, and are kept nowhere. Figures without an honest source are absent. " +
				"A run in a session has the figures of the session's sandbox.",
			Parameters: []*huma.Param{inPath(of.param, "The "+of.noun+"'s id"), inQuery("token", "A ticket", textField(""))},
			Responses: map[string]*huma.Response{"200": {Description: "The samples", Content: map[string]*huma.MediaType{
				"application/json": {Schema: sample}, "text/event-stream": {Schema: textField("")},
			}}},
		})
	}
}
