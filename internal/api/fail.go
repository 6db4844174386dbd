package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/belljar/belljar"
)

// retryAfterSec is how long to wait when an error that says "later" does not say when.
const retryAfterSec = 1

// challenge is what a 401 says about how to do better (RFC 6750).
const challenge = `Bearer realm="belljar"`

// Fail answers a request with an error: the envelope of the sandbox API, or RFC 7807 if the client asks for application/problem+json.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	e, header := Explain(r.Context(), err)
	for name, values := range header {
		w.Header()[name] = values
	}
	reply(w, r, e, e.Code.Info().HTTP)
}

// reply sends e with status.
func reply(w http.ResponseWriter, r *http.Request, e *belljar.Error, status int) {
	contentType, body := Body(r.Header.Get("Accept"), e)
	if p, ok := body.(map[string]any); ok {
		p["status"] = status
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Del("Content-Length")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false) // hints are for people, and nosniff keeps this from being a page
		_ = enc.Encode(body)     // a client that is gone needs no answer
	}
}

// Explain makes of any error what its caller may be told, and the headers that go with it: Retry-After for 429 and
// 503 (details.retry_after_sec, or one second), WWW-Authenticate for 401, X-Request-Id. What the caller may not be told
// goes to the log, with the request id and the caller.
func Explain(ctx context.Context, err error) (*belljar.Error, http.Header) {
	e := Public(err)
	header := http.Header{}
	rec := recordOf(ctx)
	if rec != nil {
		header.Set(RequestIDHeader, rec.requestID)
	}
	if e.Code == belljar.CodeInternal {
		e = logInternal(ctx, rec, e, err)
	}
	switch e.Code.Info().HTTP {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		header.Set("Retry-After", strconv.Itoa(retryAfter(e.Details)))
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", challenge)
	}
	return e, header
}

// logInternal tells the log what happened and the caller under which id to ask for it.
func logInternal(ctx context.Context, rec *record, e *belljar.Error, err error) *belljar.Error {
	log, attrs := slog.Default(), []slog.Attr{slog.Any("err", err)}
	if rec != nil {
		log = rec.log
		attrs = append(attrs, rec.attrs()...)
		e.Details = map[string]any{"request_id": rec.requestID}
	}
	level := slog.LevelError
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		level = slog.LevelDebug // the client went away; nobody reads the answer
	}
	log.LogAttrs(ctx, level, "request failed inside", attrs...)
	return e
}

// Body is how an error is written to a client that accepts these media types.
func Body(accept string, e *belljar.Error) (contentType string, body any) {
	if strings.Contains(accept, "application/problem+json") {
		return "application/problem+json", problem(e)
	}
	return "application/json", envelope{e}
}

// Public is err as a stranger may see it: a [belljar.Error] as it is, anything else as internal without its text.
func Public(err error) *belljar.Error {
	var e *belljar.Error
	if errors.As(err, &e) && e.Code != belljar.CodeInternal {
		return short(e)
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: "internal error"}
}

type envelope struct {
	Error *belljar.Error `json:"error"`
}

// problem is the mapping to RFC 7807.
func problem(e *belljar.Error) map[string]any {
	extensions := map[string]any{}
	for name, value := range e.Details {
		extensions[name] = value
	}
	extensions["code"] = e.Code
	if e.Hint != "" {
		extensions["hint"] = e.Hint
	}
	return map[string]any{
		"type": "urn:belljar:error:" + string(e.Code), "title": strings.ReplaceAll(string(e.Code), "_", " "),
		"detail": e.Message, "status": e.Code.Info().HTTP, "extensions": extensions,
	}
}

// retryAfter is details.retry_after_sec in whole seconds, at least one: a client that comes back too early is only
// sent away again.
func retryAfter(details map[string]any) int {
	var sec float64
	switch v := details["retry_after_sec"].(type) {
	case int:
		sec = float64(v)
	case int64:
		sec = float64(v)
	case float64:
		sec = v
	}
	if !(sec >= 1) { // NaN too
		return retryAfterSec
	}
	return int(min(math.Ceil(sec), 86400))
}
