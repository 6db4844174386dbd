package auth

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

const (
	// signInPrefix begins the tokens of sign-ins, with their version.
	signInPrefix = "u1."
	// secretBytes is the length of the random part of tokens and codes.
	secretBytes = 16
	// maxSignInBody bounds the body of a sign-in, in bytes.
	maxSignInBody = maxCredential + 1<<10
)

// SignIns keeps sign-ins and one-time codes by their hashes, each with its parent: the name of the credential that it was made with.
// Errors are [belljar.CodeUnauthorized] for invalid tokens and codes. A token or code whose parent is an API key ends with it.
type SignIns interface {
	// KeyParent returns the name of an API key or a sign-in token. It is the parent of sign-ins made with that key, and the name in
	// [api.Uses].
	KeyParent(key string) string
	AddCode(ctx context.Context, caller belljar.Caller, code, parent string) (expires time.Time, err error)
	// Add stores a sign-in, which expires at the latest at end, unless that is zero.
	Add(ctx context.Context, caller belljar.Caller, token, parent string, end time.Time) (expires time.Time, err error)
	// Spend returns the user of a code, once.
	Spend(ctx context.Context, code string) (caller belljar.Caller, parent string, err error)
	Find(ctx context.Context, token string) (caller belljar.Caller, parent string, err error)
	End(ctx context.Context, caller belljar.Caller, token string) error
}

// sealed is the content of a token.
type sealed struct {
	ID string `json:"i"`
}

// signedIn is the response to a sign-in.
type signedIn struct {
	Token     string       `json:"token"`
	ExpiresAt time.Time    `json:"expires_at"`
	UserID    string       `json:"user_id"`
	Role      belljar.Role `json:"role"`
}

// oneTime is a one-time code.
type oneTime struct {
	Code      string    `json:"code"`
	ExpiresAt time.Time `json:"expires_at"`
	URL       string    `json:"url,omitempty"` // of the page, which signs in with the code
}

// Register adds the routes of sign-ins. callers authenticates the routes that need a credential.
func (a *Authenticator) Register(mux *http.ServeMux, callers api.Authenticator) {
	const path = api.Prefix + "/login"
	answer := func(do func(w http.ResponseWriter, r *http.Request) (any, error)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			var v any
			_, err := api.Query(r) // check this first: a code works once
			if err == nil {
				v, err = do(w, r)
			}
			switch {
			case err != nil:
				api.Fail(w, r, err)
			case v == nil:
				w.WriteHeader(http.StatusNoContent)
			default:
				api.WriteJSON(w, http.StatusOK, v)
			}
		})
	}
	mux.Handle("POST "+path, answer(a.signIn))
	mux.Handle("DELETE "+path, api.Guard(callers, answer(a.signOut)))
	mux.Handle("POST "+path+"/codes", api.Guard(callers, answer(a.makeCode)))
}

// signIn makes a sign-in of a code or a credential.
func (a *Authenticator) signIn(w http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Code string `json:"code,omitempty"`
		Key  string `json:"key,omitempty"`
	}
	err := api.CheckJSON(r)
	var data []byte
	if err == nil {
		data, _, err = (*api.Shares)(nil).ReadBody(w, r, maxSignInBody)
	}
	if err == nil {
		err = api.Decode(data, &in)
	}
	in.Key = strings.TrimSpace(in.Key)
	var who identity
	switch {
	case err != nil:
	case (in.Code == "") == (in.Key == ""):
		err = api.Refuse("code", "code or key must be set, and not both")
	case in.Code != "":
		who, err = a.spend(r, in.Code)
	default:
		who, err = a.verify(r, credential{in.Key, true})
	}
	if err == nil {
		err = original(who)
	}
	if err != nil {
		return nil, err
	}
	token, err := a.sealer.Seal(sealed{random()})
	if err != nil {
		return nil, err
	}
	ctx := api.WithCaller(r.Context(), who.caller)
	expires, err := a.opts.SignIns.Add(ctx, api.CallerOf(ctx), token, who.parent, expiry(who.parent))
	if err != nil {
		return nil, err
	}
	a.known.add(network(r), token)
	return signedIn{token, expires.UTC(), who.caller.ID, who.caller.Role}, nil
}

// spend returns the identity of a one-time code, and counts wrong codes as wrong credentials.
func (a *Authenticator) spend(r *http.Request, code string) (identity, error) {
	err := a.limit(network(r), credential{text: code})
	var who identity
	if err == nil {
		who.caller, who.parent, err = a.opts.SignIns.Spend(r.Context(), code)
		if belljar.CodeOf(err) == belljar.CodeUnauthorized {
			err = refusal{"wrong_code", &belljar.Error{
				Code: belljar.CodeUnauthorized, Message: "the code is not valid", Hint: "a code works once, within 5 minutes: belljar token login-link makes another one",
			}}
		}
	}
	if err == nil {
		err = a.checkParent(who.parent)
	}
	if err != nil {
		return identity{}, a.refuse(r, err)
	}
	return who, nil
}

// original refuses a sign-in as the credential of another one: the second would outlive the first.
func original(who identity) error {
	if who.parent != "" {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodeForbidden, Message: "a sign-in cannot make another one", Hint: "use the API key or token that it was made with",
	}
}

// signOut ends the sign-in that the request was authenticated with.
func (a *Authenticator) signOut(_ http.ResponseWriter, r *http.Request) (any, error) {
	cred, err := credentialOf(r.Header)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(cred.text, signInPrefix) {
		return nil, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "this credential is not a sign-in", Hint: "an operator revokes API keys: belljar token revoke",
		}
	}
	return nil, a.opts.SignIns.End(r.Context(), api.CallerOf(r.Context()), cred.text)
}

// makeCode makes a one-time code for the caller.
func (a *Authenticator) makeCode(_ http.ResponseWriter, r *http.Request) (any, error) {
	cred, err := credentialOf(r.Header)
	if err != nil {
		return nil, err
	}
	who, err := a.identify(r.Context(), cred)
	if err == nil {
		err = original(who)
	}
	if err != nil {
		return nil, err
	}
	who.caller = api.CallerOf(r.Context())
	made, err := a.code(r.Context(), who)
	if err == nil && a.opts.PageURL != nil {
		made.URL = a.opts.PageURL(r, CodeFragment(made.Code))
	}
	return made, err
}

// CodeFragment returns the part of the page's address that signs in with a code. It is a fragment, so that no proxy sees it.
func CodeFragment(code string) string { return "#k=" + code }

// OperatorCode makes a one-time code for the operator, "" if there is no operator's key.
func (a *Authenticator) OperatorCode(ctx context.Context) (string, error) {
	if a.opts.Key == "" || a.opts.SignIns == nil {
		return "", nil
	}
	made, err := a.code(ctx, a.operatorIdentity())
	return made.Code, err
}

func (a *Authenticator) code(ctx context.Context, who identity) (oneTime, error) {
	made := oneTime{Code: random()}
	expires, err := a.opts.SignIns.AddCode(ctx, who.caller, made.Code, who.parent)
	made.ExpiresAt = expires.UTC()
	return made, err
}

// signedIn returns the identity of a sign-in.
func (a *Authenticator) signedIn(ctx context.Context, token string) (identity, error) {
	var content sealed
	if err := a.sealer.Open(token, &content); err != nil {
		return identity{}, refusal{"forged_login", wrong()}
	}
	c, parent, err := a.opts.SignIns.Find(ctx, token)
	switch {
	case belljar.CodeOf(err) == belljar.CodeUnauthorized:
		return identity{}, refusal{"ended_login", wrong()}
	case err != nil:
		return identity{}, err
	}
	return identity{caller: c, revocable: []string{a.opts.SignIns.KeyParent(token), parent}}, a.checkParent(parent)
}

// random returns a secret of 128 bits.
func random() string {
	var secret [secretBytes]byte
	_, _ = rand.Read(secret[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(secret[:])
}
