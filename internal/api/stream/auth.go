package stream

import (
	"net/http"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// Authenticate returns the caller that opens a stream. It checks token= in the query, a ticket or the token of a signed URL;
// without token= it checks the headers. A request with an invalid token is refused, whatever its headers are. Other doors with
// streams may use it for their routes, too.
func (d *Door) Authenticate(r *http.Request) (belljar.Caller, error) { return d.authenticate(r, false) }

// Downloads returns the authenticator for downloads. It is like that of streams, but token= must be a ticket for the path and the query
// of the request.
func (d *Door) Downloads() api.Authenticator { return downloads{d} }

type downloads struct{ door *Door }

// Authenticate returns the caller of a download.
func (a downloads) Authenticate(r *http.Request) (belljar.Caller, error) {
	return a.door.authenticate(r, true)
}

func (d *Door) authenticate(r *http.Request, download bool) (belljar.Caller, error) {
	query := r.URL.Query()
	token, given, err := single(query, "token")
	if err != nil {
		return belljar.Caller{}, err
	}
	if !given {
		return d.opts.Auth.Authenticate(r)
	}
	var caller belljar.Caller
	var reason string
	switch {
	case strings.HasPrefix(token, ticketPrefix):
		caller, reason = d.tickets.redeem(r.Context(), token, targetOf(r.URL), download)
	case strings.HasPrefix(token, signedPrefix) && !download:
		caller, reason = d.checkSigned(token, query["exp"], r.PathValue("id"))
	default:
		reason = "unknown"
	}
	if reason != "" {
		d.opts.Events.Record(event.Event{
			Name: event.AuthFailed, Caller: api.CallerOf(r.Context()), Component: "stream", Kind: "token", Reason: reason,
		})
		return belljar.Caller{}, &belljar.Error{
			Code: belljar.CodeUnauthorized, Message: "token is invalid or expired",
			Hint: "ask for a new one: POST " + api.Prefix + "/tickets",
		}
	}
	return caller, d.opts.Enter(r, caller)
}

// checkSigned returns the caller of a signed URL, or the reason why its token is invalid. The token's own expiry counts; exp
// must be the same if it is given.
func (d *Door) checkSigned(token string, exp []string, run string) (caller belljar.Caller, reason string) {
	claims, err := d.signer.open(token)
	switch {
	case err != nil:
		return belljar.Caller{}, "forged"
	case len(exp) > 1 || len(exp) == 1 && exp[0] != claims.expiry():
		return belljar.Caller{}, "changed"
	case d.opts.Now().Unix() >= claims.Expires:
		return belljar.Caller{}, "expired"
	case run == "" || claims.Run != run:
		return belljar.Caller{}, "foreign"
	}
	return belljar.Caller{ID: claims.User, Role: claims.Role}, ""
}
