package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

// passing is a failure that may be over when the same is tried again.
type passing struct {
	error
	after time.Duration // the earliest moment to try; 0 is ours to choose
	most  int           // how often it is worth it; 0 is no bound
	// undone says that the server has done nothing: what must not be done twice may be tried again, too.
	undone bool
}

func (p *passing) Unwrap() error { return p.error }

// told is what a caller hears of an error.
func told(err error) error {
	var p *passing
	if errors.As(err, &p) {
		return p.error
	}
	return err
}

// untouched reports whether the server has done nothing of what failed with err.
func untouched(err error) bool {
	var p *passing
	return errors.As(err, &p) && p.undone
}

// unreachable is a failure to get an answer at all.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	var dial *net.OpError
	nobody := errors.As(err, &dial) && dial.Op == "dial"
	if errors.Is(err, http.ErrSchemeMismatch) {
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "server " + c.host() + " speaks HTTP, without TLS", Err: http.ErrSchemeMismatch, Hint: "use http://" + c.host(),
		}
	}
	err = c.foreign(ctx, "server "+c.host()+" cannot be reached", err)
	var p *passing
	switch {
	case nobody && !c.met.Load(): // more likely a wrong address than one that will be right in a moment
		return told(err)
	case nobody && errors.As(err, &p):
		p.undone = true
	}
	return err
}

// foreign is a failure that the server did not tell. It is passing unless the context has ended.
func (c *Client) foreign(ctx context.Context, message string, err error) error {
	if e := given(ctx); e != nil {
		return e
	}
	if c.local != nil {
		if over := c.local.over(); over != nil {
			return over
		}
	}
	var told *url.Error
	if errors.As(err, &told) {
		err = told.Err // without the address, which the message has
	}
	hint := "check the address, and that belljar serve is running there"
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		hint = "if the certificate is right, make its issuer known: SSL_CERT_FILE names a file of those to trust"
	}
	return &passing{error: &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: message, Err: err, Hint: hint}}
}

// given is the error of a context that its owner has ended; nil if it has not.
func given(ctx context.Context) error {
	cause := context.Cause(ctx)
	if at, bounded := ctx.Deadline(); cause == nil && bounded && !time.Now().Before(at) {
		cause = context.DeadlineExceeded // a connection has a clock of its own, which may be a moment ahead
	}
	switch {
	case cause == nil, errors.Is(cause, errSilent):
		return nil
	case errors.Is(cause, context.DeadlineExceeded):
		return &belljar.Error{Code: belljar.CodeTimeout, Message: "the time for the request is over", Err: cause}
	}
	return &belljar.Error{Code: belljar.CodeCanceled, Message: "the request was given up", Err: cause}
}

// failure is the error that an answer tells. It closes the answer.
func failure(resp *http.Response) error {
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what is there says enough, or too little
	var body struct {
		Error *belljar.Error `json:"error"`
	}
	var own *belljar.Error
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "application/json" {
		if json.Unmarshal(raw, &body) == nil && body.Error != nil && body.Error.Code != "" {
			own = body.Error
		}
	}
	e := own
	if e == nil {
		e = stranger(resp)
		if resp.StatusCode == http.StatusBadRequest && strings.Contains(string(raw), "HTTP request to an HTTPS server") && resp.Request != nil {
			e.Message, e.Hint = "server "+resp.Request.URL.Host+" speaks HTTPS only", "use https://"+resp.Request.URL.Host
		}
	}
	p := &passing{error: e}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		var asked bool
		if p.after, asked = retryAfter(resp.Header.Get("Retry-After")); !asked {
			return e // it will not be better soon
		}
		p.undone = own != nil && own.Code == belljar.CodeRateLimited
		if _, says := e.Details["retry_after_sec"]; own != nil && own.Code != belljar.CodeRateLimited && !says {
			p.most = 2 // a server that starts or ends, perhaps; or one that cannot do it at all
		}
		return p
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		if own == nil { // what stands before the server says that it is away
			return p
		}
	}
	return e
}

// stranger is the failure of an answer that no Belljar gives.
func stranger(resp *http.Response) *belljar.Error {
	e := &belljar.Error{
		Code: belljar.CodeInternal, Message: fmt.Sprintf("the server answered %s, so it is not belljar", resp.Status),
		Hint: "check that this is the address of a belljar, and any proxy in front of it",
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
		for _, row := range belljar.Table() {
			if row.HTTP == resp.StatusCode {
				e.Code = row.Code
				break
			}
		}
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.Code = belljar.CodeRuntimeUnavailable
	}
	if to := resp.Header.Get("Location"); to != "" {
		e.Details = map[string]any{"location": to}
		e.Hint = "it redirects to " + to + ": if that is the server, give its address"
	}
	return e
}

// retryAfter tells when an answer asks to come back, if it does.
func retryAfter(given string) (after time.Duration, asked bool) {
	const soonest, latest = 50 * time.Millisecond, 24 * time.Hour
	if sec, err := strconv.ParseFloat(given, 64); err == nil && sec >= 0 {
		return max(time.Duration(min(sec, latest.Seconds())*float64(time.Second)), soonest), true
	}
	if at, err := http.ParseTime(given); err == nil {
		return min(max(time.Until(at), soonest), latest), true
	}
	return 0, false
}
