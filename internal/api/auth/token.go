package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/user"
)

// leeway is the tolerated difference between the issuer's clock and this machine's.
const leeway = 30 * time.Second

// maxSubject limits a user id, in bytes.
const maxSubject = 256

// looksLikeJWT distinguishes tokens from keys: three parts, the first of them a JSON object.
func looksLikeJWT(s string) bool { return strings.Count(s, ".") == 2 && strings.HasPrefix(s, "eyJ") }

// token returns the caller of a JWT. The token's algorithm only selects the verifier; each verifier accepts only the
// algorithms of its own keys, so that a public key is never used as a secret.
func (a *Authenticator) token(ctx context.Context, raw string) (identity, error) {
	alg, err := algorithm(raw)
	if err != nil {
		return identity{}, bad(err)
	}
	var claims []byte
	kind := sharedParent
	switch alg {
	case "HS256":
		claims, err = a.verifyShared(raw)
	case "RS256", "ES256":
		if a.provider == nil {
			return identity{}, bad(errors.New("no issuer is configured"))
		}
		kind = providerParent
		claims, err = a.provider.verify(ctx, raw)
	default:
		err = bad(fmt.Errorf("algorithm %.20q is not accepted", alg))
	}
	if err != nil {
		return identity{}, err
	}
	c, err := callerOf(claims)
	if err != nil {
		return identity{}, flawed(err)
	}
	if user.Reserved(c) {
		return identity{}, bad(errors.New("sub is a name of the server's"))
	}
	var expires float64 // the verifiers require it
	if err := exactly(claims, map[string]any{"exp": &expires}); err != nil {
		return identity{}, flawed(err)
	}
	return identity{caller: c, parent: a.parent(kind, a.origin(kind), int64(expires))}, nil
}

// algorithm returns the algorithm in a token's header, which is not verified yet.
func algorithm(raw string) (string, error) {
	first, _, _ := strings.Cut(raw, ".")
	text, err := base64.RawURLEncoding.Strict().DecodeString(first)
	if err != nil {
		return "", errors.New("header is not base64url")
	}
	var header struct {
		Alg  string          `json:"alg"`
		Crit json.RawMessage `json:"crit"`
	}
	if err := json.Unmarshal(text, &header); err != nil {
		return "", errors.New("header is not JSON")
	}
	if header.Crit != nil {
		return "", errors.New("header has critical extensions, and none is known here")
	}
	return header.Alg, nil
}

// verifyShared returns the claims of a token signed with the shared secret.
func (a *Authenticator) verifyShared(raw string) ([]byte, error) {
	if len(a.opts.JWTSecret) == 0 {
		return nil, bad(errors.New("no JWT secret is configured"))
	}
	var claims jwt.MapClaims
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(a.opts.Now), jwt.WithStrictDecoding(), jwt.WithJSONNumber(),
	)
	_, err := parser.ParseWithClaims(raw, &claims, func(*jwt.Token) (any, error) { return a.opts.JWTSecret, nil })
	switch {
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return nil, bad(err)
	case errors.Is(err, jwt.ErrTokenExpired):
		return nil, expired(err)
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		return nil, flawed(errors.New("it has no exp"))
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return nil, flawed(errors.New("nbf or iat is in the future"))
	case err != nil:
		return nil, bad(err)
	}
	return json.Marshal(claims)
}

// callerOf returns the caller for verified claims. sub is the user id. The user is an operator if is_admin or
// sandbox_admin is true, or a role (role, roles) is admin or sandbox_admin (docs/compatibility.md#administration).
func callerOf(raw []byte) (belljar.Caller, error) {
	var claims struct {
		Subject               string
		Role, Roles           words
		IsAdmin, SandboxAdmin flag
	}
	if err := exactly(raw, map[string]any{
		"sub": &claims.Subject, "role": &claims.Role, "roles": &claims.Roles,
		"is_admin": &claims.IsAdmin, "sandbox_admin": &claims.SandboxAdmin,
	}); err != nil {
		return belljar.Caller{}, fmt.Errorf("claims: %w", err)
	}
	if claims.Subject == "" || len(claims.Subject) > maxSubject {
		return belljar.Caller{}, fmt.Errorf("sub must have 1 to %d bytes", maxSubject)
	}
	for _, c := range claims.Subject {
		if c < ' ' || c == 0x7f || c == 0xfffd {
			return belljar.Caller{}, errors.New("sub has a control character")
		}
	}
	c := belljar.Caller{ID: claims.Subject, Role: belljar.RoleUser}
	for _, role := range append(claims.Role, claims.Roles...) {
		if role == "admin" || role == "sandbox_admin" {
			c.Role = belljar.RoleAdmin
		}
	}
	if claims.IsAdmin || claims.SandboxAdmin {
		c.Role = belljar.RoleAdmin
	}
	return c, nil
}

// exactly decodes the members of a JSON object with exactly these names. encoding/json alone would accept SUB for sub, and
// an issuer may let its users add claims of their own.
func exactly(raw []byte, into map[string]any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	for name, value := range into {
		if given, ok := members[name]; ok {
			if err := json.Unmarshal(given, value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// words is a claim that is a string, with words separated by spaces, or a list of strings.
type words []string

func (w *words) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*w = strings.Fields(one)
		return nil
	}
	var many []string
	if err := json.Unmarshal(raw, &many); err != nil {
		return errors.New("a role is neither a string nor a list of strings")
	}
	*w = many
	return nil
}

// flag is a claim that is set only by the JSON value true. The string "false" must not make an operator.
type flag bool

func (f *flag) UnmarshalJSON(raw []byte) error {
	*f = string(raw) == "true"
	return nil
}

// bad is the refusal of an invalid token, without the reason.
func bad(err error) error {
	e := wrong()
	e.Err = err
	return refusal{"invalid_token", e}
}

// flawed is the refusal of a token with a valid signature but invalid claims; the message has the reason.
func flawed(err error) error {
	return refusal{"invalid_token", &belljar.Error{
		Code: belljar.CodeUnauthorized, Message: "token is not valid: " + err.Error(), Hint: "its issuer must set sub and exp", Err: err,
	}}
}

// expired is the refusal of an expired token.
func expired(err error) error {
	return refusal{"expired_token", &belljar.Error{
		Code: belljar.CodeUnauthorized, Message: "token has expired", Hint: "get a new one from its issuer", Err: err,
	}}
}
