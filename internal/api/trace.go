package api

import (
	"strings"

	"github.com/belljar/belljar"
)

// RequestIDHeader carries the id of a request, in requests and responses.
const RequestIDHeader = "X-Request-Id"

// traceHeader is the header of W3C Trace Context.
const traceHeader = "Traceparent"

// requestID returns the client's id if it is safe to log, else a new one.
func requestID(given string) string {
	if len(given) == 0 || len(given) > 128 {
		return belljar.NewID()
	}
	for _, c := range []byte(given) {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.:+/=", c) >= 0
		if !ok {
			return belljar.NewID()
		}
	}
	return given
}

// traceID returns the trace id of a W3C traceparent, or "" if it is invalid. Later versions may append fields.
func traceID(parent string) string {
	if len(parent) < 55 || len(parent) > 512 {
		return ""
	}
	version, trace, span, flags := parent[0:2], parent[3:35], parent[36:52], parent[53:55]
	switch {
	case parent[2] != '-' || parent[35] != '-' || parent[52] != '-',
		!lowerHex(version) || !lowerHex(trace) || !lowerHex(span) || !lowerHex(flags),
		version == "ff",
		len(parent) > 55 && (version == "00" || parent[55] != '-'),
		strings.Trim(trace, "0") == "", strings.Trim(span, "0") == "":
		return ""
	}
	return trace
}

func lowerHex(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}

// label returns a header's value if it is safe for the audit trail: printable ASCII, at most 128 characters; else "".
func label(value string) string {
	if len(value) > 128 {
		return ""
	}
	for _, c := range []byte(value) {
		if c < 0x20 || c > 0x7e {
			return ""
		}
	}
	return strings.TrimSpace(value)
}
