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

// passing is an error that a retry may resolve.
type passing struct {
	error
	after time.Duration // minimum delay; 0 leaves it to the client
	most  int           // maximum number of retries; 0 means no limit
	// undone means that the server has not processed the request, so that any request may be retried.
	undone bool
}

func (p *passing) Unwrap() error { return p.error }

// callerError returns err for the caller, without [passing].
func callerError(err error) error {
	var p *passing
	if errors.As(err, &p) {
		return p.error
	}
	return err
}

// undone reports whether the server has not processed the request that failed with err.
func undone(err error) bool {
	var p *passing
	return errors.As(err, &p) && p.undone
}

// lost reports whether the server may have processed the request that failed with err.
func lost(err error) bool {
	var p *passing
	return errors.As(err, &p) && !p.undone && p.after == 0
}

// unreachable returns the error for a request without a response.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	var dial *net.OpError
	refused := errors.As(err, &dial) && dial.Op == "dial"
	if errors.Is(err, http.ErrSchemeMismatch) {
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "server " + c.host() + " speaks HTTP, without TLS", Err: http.ErrSchemeMismatch, Hint: "use http://" + c.host(),
		}
	}
	err = c.transportError(ctx, "server "+c.host()+" cannot be reached", err)
	var p *passing
	switch {
	case refused && !c.met.Load(): // most likely a wrong address
		return callerError(err)
	case !errors.As(err, &p):
	case refused:
		p.undone = true
	case !errors.Is(err, errSilent): // which may have been before it was connected
		c.met.Store(true)
	}
	return err
}

// transportError returns an error that the server did not send. It is passing unless the context has ended or the certificate is
// not trusted.
func (c *Client) transportError(ctx context.Context, message string, err error) error {
	if e := contextError(ctx); e != nil {
		return e
	}
	if c.local != nil {
		if over := c.local.exited(); over != nil {
			return over
		}
	}
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err // the message has the address already
	}
	e := &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: message, Err: err, Hint: "check the address, and that belljar serve is running there",
	}
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		e.Hint = "if the certificate is right, make its issuer known: SSL_CERT_FILE names a file of those to trust"
		return e
	}
	return &passing{error: e}
}

// contextError returns the error of a context that the caller has ended; nil otherwise.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if at, bounded := ctx.Deadline(); err == nil && bounded && !time.Now().Before(at) {
		err = context.DeadlineExceeded // a connection's deadline may fire slightly before the context's
	}
	if err == nil || errors.Is(cause, errSilent) {
		return nil
	}
	if cause == nil {
		cause = err
	} else if !errors.Is(cause, err) {
		cause = fmt.Errorf("%w: %w", err, cause)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &belljar.Error{Code: belljar.CodeTimeout, Message: "the time for the request is over", Err: cause}
	}
	return &belljar.Error{Code: belljar.CodeCanceled, Message: "the request was cancelled", Err: cause}
}

// failure returns the error in a response, and closes it.
func failure(resp *http.Response) error {
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // a partial body is ignored
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
		e = unexpected(resp)
		if resp.StatusCode == http.StatusBadRequest && strings.Contains(string(raw), "HTTP request to an HTTPS server") && resp.Request != nil {
			e.Message, e.Hint = "server "+resp.Request.URL.Host+" speaks HTTPS only", "use https://"+resp.Request.URL.Host
		}
	}
	p := &passing{error: e}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		var asked bool
		if p.after, asked = retryAfter(resp.Header.Get("Retry-After")); !asked {
			return e // not temporary
		}
		p.undone = own != nil && own.Code == belljar.CodeRateLimited
		if _, says := e.Details["retry_after_sec"]; own != nil && own.Code != belljar.CodeRateLimited && !says {
			p.most = 2 // the cause may be permanent
		}
		return p
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		if own == nil { // from a proxy: the server is unavailable
			return p
		}
	}
	return e
}

// unexpected returns the error for a response that is not Belljar's.
func unexpected(resp *http.Response) *belljar.Error {
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

// retryAfter parses a Retry-After header; false if it is missing or invalid.
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
