package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
)

// Reason is the reason why a request failed, for programs.
type Reason string

// The reasons.
const (
	Auth            Reason = "auth"             // the server refuses the credentials
	Unreachable     Reason = "unreachable"      // the server does not answer, or answers that it is unavailable
	BadPath         Reason = "bad_path"         // another program answers at that address
	VersionMismatch Reason = "version_mismatch" // the server's version does not match
	Refused         Reason = "refused"          // by a rule of this package
)

// Failure describes why a request failed. Its text contains no data from the server, and no address.
type Failure struct {
	Reason Reason
	Status int // of the answer; 0 if there was none
	text   string
	early  bool // the request was not sent
}

// Error returns the reason in words, as a predicate of "the server".
func (f *Failure) Error() string {
	if f.Status != 0 {
		return fmt.Sprintf("%s (%s, status %d)", f.text, f.Reason, f.Status)
	}
	return fmt.Sprintf("%s (%s)", f.text, f.Reason)
}

// Hint returns what an operator can do.
func (f *Failure) Hint() string {
	switch f.Reason {
	case Auth:
		return "check the token: it is unknown to the server, expired, or not for this sandbox"
	case BadPath:
		return "check the host, port and path: something else answers there"
	case VersionMismatch:
		return "deploy the workspace service of this version again (deploy/sandbox/deploy_workspace_service.sh)"
	case Refused:
		return "check the address: only the configured host, port and paths are requested"
	}
	return "check that the server runs and that this machine can reach it"
}

// ReasonOf returns the reason of an error; "" if it has none.
func ReasonOf(err error) Reason {
	var f *Failure
	if errors.As(err, &f) {
		return f.Reason
	}
	return ""
}

func refused(text string) *Failure { return &Failure{Reason: Refused, text: text, early: true} }

// Answered returns the failure for a status; nil for a success.
func Answered(status int) error {
	if f := ofStatus(status); f != nil {
		return f
	}
	return nil
}

func ofStatus(status int) *Failure {
	f := &Failure{Status: status}
	switch {
	case status == http.StatusSwitchingProtocols, status >= 200 && status < 300:
		return nil
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.Reason, f.text = Auth, "it refuses the credentials"
	case status == http.StatusTooManyRequests:
		f.Reason, f.text = Unreachable, "it asks to send fewer requests"
	case status >= 500:
		f.Reason, f.text = Unreachable, "it cannot answer now"
	case status == http.StatusNotFound, status == http.StatusGone, status == http.StatusMethodNotAllowed:
		f.Reason, f.text = BadPath, "it does not know what it was asked for"
	default:
		f.Reason, f.text = BadPath, "it does not understand the request"
	}
	return f
}

// unanswered returns the failure for an error of a connection.
func unanswered(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	f = &Failure{Reason: Unreachable, text: "the connection was lost"}
	var timeout net.Error
	var cert *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		f.text = "it did not answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		f.text = "it refuses connections"
	case errors.As(err, &cert), errors.As(err, &authority):
		f.text = "its certificate is not valid"
	case errors.As(err, &record):
		f.Reason, f.text = BadPath, "it does not speak TLS"
	}
	return f
}
