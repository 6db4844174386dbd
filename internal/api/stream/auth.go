package stream

import (
	"net/http"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// Authenticate finds out who opens a stream: by token= in the query, a ticket or a signed URL's, or else by headers. A
// token that is no good is not made up for by headers. Other doors with streams may use it for their routes, too.
func (d *Door) Authenticate(r *http.Request) (belljar.Caller, error) {
	query := r.URL.Query()
	token, given, err := one(query, "token")
	if err != nil {
		return belljar.Caller{}, err
	}
	if !given {
		return d.opts.Auth.Authenticate(r)
	}
	var caller belljar.Caller
	var why string
	switch {
	case strings.HasPrefix(token, ticketPrefix):
		caller, why = d.tickets.redeem(token, r.URL.Path)
	case strings.HasPrefix(token, signedPrefix):
		caller, why = d.signed(token, query["exp"], r.PathValue("id"))
	default:
		why = "unknown"
	}
	if why != "" {
		d.opts.Events.Record(event.Event{
			Name: event.AuthFailed, Caller: api.CallerOf(r.Context()), Component: "stream", Kind: "token", Reason: why,
		})
		return belljar.Caller{}, &belljar.Error{
			Code: belljar.CodeUnauthorized, Message: "token is invalid or expired",
			Hint: "ask for a new one: POST " + api.Prefix + "/tickets",
		}
	}
	return caller, nil
}

// signed checks a signed URL's token: its own word counts, and exp must say the same if it is there.
func (d *Door) signed(token string, exp []string, run string) (belljar.Caller, string) {
	pass, err := d.signer.open(token)
	switch {
	case err != nil:
		return belljar.Caller{}, "forged"
	case len(exp) > 1 || len(exp) == 1 && exp[0] != pass.expiry():
		return belljar.Caller{}, "changed"
	case d.opts.Now().Unix() >= pass.Expires:
		return belljar.Caller{}, "expired"
	case run == "" || pass.Run != run:
		return belljar.Caller{}, "foreign"
	}
	return belljar.Caller{ID: pass.User, Role: pass.Role}, ""
}
