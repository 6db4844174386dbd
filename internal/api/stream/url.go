package stream

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// RunURL returns the address of a run's stream for the sender of r. A signed URL has a token for that caller and run, so that
// the client needs no headers.
func (d *Door) RunURL(r *http.Request, run belljar.Run) string {
	path := api.Prefix + "/runs/" + url.PathEscape(run.ID) + "/stream"
	// The API fixes the order of the parameters; url.Values would sort them.
	query := ""
	if caller := api.CallerOf(r.Context()); d.opts.SignedURLs && caller.ID != "" {
		p := claims{User: caller.ID, Role: caller.Role, Run: run.ID, Expires: d.opts.Now().Add(d.opts.SignedTTL).Unix()}
		token, err := d.signer.sign(p)
		if err != nil {
			d.log.Error("stream url could not be signed", "run_id", run.ID, "err", err)
		} else {
			query = "?token=" + token + "&exp=" + url.QueryEscape(p.expiry())
		}
	}
	if run.ResumeFromSeq > 0 {
		if query == "" {
			query = "?"
		} else {
			query += "&"
		}
		query += "from_seq=" + strconv.FormatUint(run.ResumeFromSeq, 10)
	}
	return d.address(r, path+query)
}

func (d *Door) address(r *http.Request, path string) string {
	if d.opts.URL != nil {
		return d.opts.URL(r, path)
	}
	scheme := "ws"
	if r.TLS != nil {
		scheme = "wss"
	}
	return scheme + "://" + r.Host + path
}
