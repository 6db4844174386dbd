package lsp

import (
	"context"
	"errors"

	"github.com/creachadair/jrpc2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// refuse returns the error for a field of a request.
func refuse(field, message, hint string) error {
	e := api.Refuse(field, "%s", message)
	e.Hint = hint
	return e
}

// failure is the data of an error response.
type failure struct {
	Code    belljar.Code   `json:"code"`
	Details map[string]any `json:"details,omitempty"`
	Hint    string         `json:"hint,omitempty"`
	Action  *command       `json:"action,omitempty"` // an action to offer
}

const cancelledText = "the request was cancelled"

// failed returns the response for an error. It uses the protocol's own error code where there is one, else
// Belljar's.
func failed(ctx context.Context, err error) error {
	if rpc := (*jrpc2.Error)(nil); errors.As(err, &rpc) {
		return err
	}
	if errors.Is(err, context.Canceled) || ctx.Err() != nil && belljar.CodeOf(err) == belljar.CodeCanceled {
		return jrpc2.Errorf(codeCancelled, cancelledText)
	}
	e := asError(err)
	data := failure{Code: e.Code, Details: e.Details, Hint: belljar.HintOf(err)}
	code, message := e.Code.Info().JSONRPC, err.Error()
	if e.Code == belljar.CodeUnauthorized {
		code, message = codeRequestFailed, "credentials are missing, or the server does not accept them"
		data.Hint = "set BELLJAR_API_KEY for the editor, or use the editor's command Set API key"
		data.Action = &command{Title: "Set API key", Command: "belljar.setApiKey"}
	}
	return jrpc2.Errorf(jrpc2.Code(code), "%s", message).WithData(data)
}

// asError converts any error to a Belljar error.
func asError(err error) *belljar.Error {
	if e := (*belljar.Error)(nil); errors.As(err, &e) {
		return e
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: err.Error()}
}

// words returns an error and its hint as text for people.
func words(err error) string {
	text := err.Error()
	if hint := belljar.HintOf(err); hint != "" {
		text += " (" + hint + ")"
	}
	return text
}
