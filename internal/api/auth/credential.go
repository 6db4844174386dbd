package auth

import (
	"net/http"
	"strings"

	"github.com/belljar/belljar"
)

// maxCredential limits a credential, in bytes. Tokens that list a user's groups can be long.
const maxCredential = 16 << 10

// credential is the API key or token of a request.
type credential struct {
	text   string
	bearer bool // from Authorization, and so maybe a JWT
}

// credentialOf returns the credential in a request's headers. Both headers may be set if they agree. A repeated header is
// refused, since a proxy may have checked the other value.
func credentialOf(h http.Header) (credential, error) {
	authorization, key := h.Values("Authorization"), h.Values("X-Api-Key")
	if len(authorization) > 1 || len(key) > 1 {
		return credential{}, refusal{"conflict", &belljar.Error{
			Code: belljar.CodeUnauthorized, Message: "credentials are given more than once",
		}}
	}
	var found credential
	if len(authorization) == 1 {
		scheme, token, _ := strings.Cut(authorization[0], " ")
		token = strings.TrimSpace(token)
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			return credential{}, refusal{"malformed", &belljar.Error{
				Code: belljar.CodeUnauthorized, Message: "authorization is not of the form Bearer <token>",
			}}
		}
		found = credential{token, true}
	}
	if len(key) == 1 {
		text := strings.TrimSpace(key[0])
		if found.text != "" && found.text != text {
			return credential{}, refusal{"conflict", &belljar.Error{
				Code: belljar.CodeUnauthorized, Message: "Authorization and X-API-KEY are different credentials",
				Hint: "send one of them",
			}}
		}
		if found.text == "" {
			found = credential{text, false}
		}
	}
	switch {
	case found.text == "":
		return credential{}, refusal{"missing", &belljar.Error{
			Code: belljar.CodeUnauthorized, Message: "credentials are missing",
			Hint: "send Authorization: Bearer <key or token>, or X-API-KEY: <key>",
		}}
	case len(found.text) > maxCredential:
		return credential{}, refusal{"malformed", wrong()}
	}
	return found, nil
}
