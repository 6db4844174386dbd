package client

import (
	"context"
	"net/http"
	"time"

	"github.com/belljar/belljar"
)

// Credential is the credential for [Client.Login]: a one-time code, or a key or token. Set one of them.
type Credential struct {
	Code string `json:"code,omitempty"`
	Key  string `json:"key,omitempty"`
}

// Login is a sign-in: a token for [Options.Bearer] with the same user and role. It ends after at most 12 hours, or together with the
// credential that it was made with.
type Login struct {
	Token     string       `json:"token"`
	ExpiresAt time.Time    `json:"expires_at"`
	UserID    string       `json:"user_id"`
	Role      belljar.Role `json:"role"`
}

// LoginCode is a one-time code. It signs in once, within 5 minutes.
type LoginCode struct {
	Code      string    `json:"code"`
	ExpiresAt time.Time `json:"expires_at"`
	URL       string    `json:"url,omitempty"` // of the web page, which signs in with the code; "" without the page
}

// Login signs in. The client needs no key for it, and does not use the new token itself. [belljar.CodeUnauthorized] for a wrong
// credential, [belljar.CodeForbidden] for the token of another sign-in. It is not retried: a code works once.
func (c *Client) Login(ctx context.Context, with Credential) (Login, error) {
	var login Login
	return login, c.ask(ctx, request{method: http.MethodPost, path: route("login"), send: with, once: true}, &login)
}

// Logout ends the sign-in whose token this client uses. [belljar.CodeInvalidRequest] for a client with another credential.
func (c *Client) Logout(ctx context.Context) error {
	return c.ask(ctx, request{method: http.MethodDelete, path: route("login"), once: true}, nil)
}

// LoginLink makes a one-time code for the user of this client. [belljar.CodeForbidden] for a client that uses a sign-in.
func (c *Client) LoginLink(ctx context.Context) (LoginCode, error) {
	var code LoginCode
	return code, c.ask(ctx, request{method: http.MethodPost, path: route("login", "codes"), once: true}, &code)
}
