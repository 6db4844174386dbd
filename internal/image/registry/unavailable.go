package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
)

// passing reports whether a failure may be temporary.
func passing(err error) bool {
	var (
		answer      *transport.Error
		ours        *belljar.Error
		private     *privateError
		refused     *refusal
		name        *net.DNSError
		certificate *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &ours), errors.As(err, &private), errors.As(err, &refused), errors.As(err, &certificate), errors.Is(err, errStalled):
		return false // a registry that stalls has used up its time
	case errors.As(err, &name):
		return name.IsTemporary
	case errors.As(err, &answer):
		return answer.StatusCode >= 500 || answer.StatusCode == http.StatusRequestTimeout
	}
	var timeout interface{ Timeout() bool }
	return !errors.As(err, &timeout) || !timeout.Timeout()
}

// refusal names an address that a registry has redirected to and that is refused.
type refusal struct{ what string }

func (e *refusal) Error() string { return e.what }

// unavailable makes the error of a pull that fails because of the registry.
func (r *Repository) unavailable(reason string, err error) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeImageUnavailable, Message: fmt.Sprintf("image %q cannot be pulled: %s", r.ref, reason),
		Details: map[string]any{"image": r.ref, "registry": r.repo.RegistryStr(), "reason": reason}, Err: quoted(err, reason),
	}
}

// quote makes a cause with a registry's text safe for a log.
type quote struct{ err error }

// quoted returns the cause of an error without its request, nil if reason contains it already.
func quoted(err error, reason string) error {
	var inURL *url.Error
	for errors.As(err, &inURL) {
		err = inURL.Err
	}
	if err == nil || strings.HasSuffix(fault.Printable(err.Error()), reason) {
		return nil
	}
	return &quote{err}
}

func (q *quote) Error() string { return fault.Printable(q.err.Error()) }

func (q *quote) Unwrap() error { return q.err }

// fail converts a failure of a registry to an error for the caller.
func (r *Repository) fail(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var (
		ours    *belljar.Error
		answer  *transport.Error
		private *privateError
		refused *refusal
		inURL   *url.Error
	)
	switch {
	case errors.As(err, &ours):
		return err
	case errors.As(err, &private):
		e := r.unavailable(fault.Printable(private.shown()), err)
		e.Details["rule"] = "address"
		e.Hint = "an operator can name the registry in SANDBOX_IMAGE_REGISTRIES"
		return e
	case errors.As(err, &refused):
		e := r.unavailable(fault.Printable(refused.what), err)
		e.Details["rule"] = "redirect"
		e.Hint = "an operator can name the registry in SANDBOX_IMAGE_REGISTRIES, and the hosts that it leads to"
		return e
	case errors.As(err, &answer):
		return r.refused(answer)
	}
	reason := err
	for errors.As(reason, &inURL) { // without the URL, which may contain a signature
		reason = inURL.Err
	}
	e := r.unavailable(shown(reason), err)
	e.Hint = "check that " + r.repo.RegistryStr() + " can be reached from this machine"
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		e.Details["rule"] = "certificate"
		e.Hint = "this machine does not trust its certificate: add its authority to the system's, or name a file of certificates in SSL_CERT_FILE"
	}
	return e
}

// shown returns the text of a failure without the addresses of this machine, its resolver, and what names resolve to: they stay in the cause.
func shown(err error) string {
	var (
		name *net.DNSError
		op   *net.OpError
	)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection broke off"
	case errors.As(err, &name):
		return fault.Printable(name.Name + " has no address that can be found")
	}
	for inner := err; errors.As(inner, &op); { // the innermost: a proxy's is around that of its dial
		inner = op.Err
	}
	if op != nil {
		plain := *op
		plain.Source, plain.Addr = nil, nil
		err = &plain
	}
	return fault.Printable(err.Error())
}

// refused converts a registry's error response to an error for the caller.
func (r *Repository) refused(answer *transport.Error) error {
	var reason string
	for _, d := range answer.Errors {
		reason = fault.Printable(d.Message)
		break
	}
	if reason == "" {
		reason = http.StatusText(answer.StatusCode)
	}
	e := r.unavailable(reason, answer)
	e.Details["status"] = answer.StatusCode
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		e = r.unavailable("it is private, or does not exist ("+reason+")", answer)
		e.Details["status"] = answer.StatusCode
		e.Hint = "check the name; for a private image sign on with docker login as the user that Belljar runs as"
		if r.scheme == "http" && !loopback(r.repo.RegistryStr()) {
			e.Hint = "check the name; if it is private its registry needs TLS: no password is sent over a plain connection"
		}
	case http.StatusNotFound:
		e = r.unavailable("the registry does not have it ("+reason+")", answer)
		e.Details["status"] = answer.StatusCode
		e.Hint = "check the name and the tag"
	case http.StatusTooManyRequests:
		e.Hint = "wait, or sign on to the registry, which then allows more"
		if s := seconds(r.way.retryAfter(), time.Now()); s > 0 {
			e.Details["retry_after_sec"] = s
			e.Hint = fmt.Sprintf("try again in %d s", s)
		}
	}
	return e
}

// seconds reads a Retry-After header: a number or a date.
func seconds(after string, now time.Time) int64 {
	if n, err := strconv.ParseInt(after, 10, 32); err == nil {
		return n
	}
	if t, err := http.ParseTime(after); err == nil {
		return int64(t.Sub(now).Seconds())
	}
	return 0
}
