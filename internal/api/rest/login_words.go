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
