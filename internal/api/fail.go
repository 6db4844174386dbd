package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/belljar/belljar"
)

// retryAfterSec is the Retry-After of errors that set none.
const retryAfterSec = 1

// challenge is the WWW-Authenticate header of a 401 (RFC 6750).
const challenge = `Bearer realm="belljar"`

// Fail responds with err: the envelope of the sandbox API, or RFC 7807 if the client accepts application/problem+json.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	FailAs(w, r, Public(ending(r.Context(), err)).Code.Info().HTTP, err)
}

// FailAs is [Fail] with a status other than that of the error's code.
func FailAs(w http.ResponseWriter, r *http.Request, status int, err error) {
	e, header := Explain(r.Context(), err)
	for name, values := range header {
		w.Header()[name] = values
	}
	reply(w, r, e, status)
}

// reply sends e with status.
func reply(w http.ResponseWriter, r *http.Request, e *belljar.Error, status int) {
	contentType, body := Body(r.Header.Get("Accept"), e)
	if p, ok := body.(map[string]any); ok {
		p["status"] = status
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // hints are for people, and nosniff keeps this from being a page
	_ = enc.Encode(body)     // details are JSON values
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(text.Len()))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text.Bytes()) // fails only if the client is gone
	}
}

// ending returns [Revoked] if the request's credentials were revoked, since err is then only a consequence. Otherwise
// it returns err.
func ending(ctx context.Context, err error) error { return cmp.Or(Revoked(ctx), err) }

// Explain returns the public form of err ([Public]) and its headers: Retry-After for 429 and 503
// (details.retry_after_sec, or one second), WWW-Authenticate for 401, and X-Request-Id. The text of an internal error
// is logged with the request id and the caller.
func Explain(ctx context.Context, err error) (*belljar.Error, http.Header) {
	err = ending(ctx, err)
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

// logInternal logs err and adds the request id to e.
func logInternal(ctx context.Context, rec *record, e *belljar.Error, err error) *belljar.Error {
	if rec != nil {
		e.Details = map[string]any{"request_id": rec.requestID}
	}
	level := slog.LevelError
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		level = slog.LevelDebug // the client disconnected
	}
	logError(ctx, rec, level, "request failed inside", err)
	return e
}

// Abort cuts the connection after a partial response that failed with err, so that the client detects the short body. The log has the
// reason, because the client can no longer receive it.
func Abort(ctx context.Context, err error) {
	var attrs []slog.Attr
	if e, is := errors.AsType[*belljar.Error](err); is && e.Details["path"] != nil {
		attrs = append(attrs, slog.Any("file", e.Details["path"]))
	}
	level := slog.LevelWarn
	if ctx.Err() != nil || belljar.CodeOf(err) == belljar.CodeCanceled {
		level = slog.LevelDebug // the client disconnected
	}
	logError(ctx, recordOf(ctx), level, "response broken off", err, attrs...)
	panic(http.ErrAbortHandler)
}

func logError(ctx context.Context, rec *record, level slog.Level, text string, err error, more ...slog.Attr) {
	log, attrs := slog.Default(), append([]slog.Attr{slog.Any("err", err)}, more...)
	if rec != nil {
		log = rec.log
		attrs = append(attrs, rec.attrs()...)
	}
	log.LogAttrs(ctx, level, text, attrs...)
}

// Body returns the response body for e and its content type, chosen by the Accept header.
func Body(accept string, e *belljar.Error) (contentType string, body any) {
	if strings.Contains(accept, "application/problem+json") {
		return "application/problem+json", problem(e)
	}
	return "application/json", envelope{failure{e.Code, e.Message, nonNil(e.Details), e.Hint}}
}

// nonNil returns details, or an empty object if there are none.
func nonNil(details map[string]any) map[string]any {
	if details == nil {
		return map[string]any{}
	}
	return details
}

// Public returns the form of err that clients may see: a [belljar.Error] unchanged but for long texts, any other error
// as internal without its text.
func Public(err error) *belljar.Error {
	var e *belljar.Error
	if errors.As(err, &e) && e.Code != belljar.CodeInternal {
		return short(e)
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: "internal error"}
}

type envelope struct {
	Error failure `json:"error"`
}

// failure is a [belljar.Error] in the envelope of the sandbox API, which always has details.
type failure struct {
	Code    belljar.Code   `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
	Hint    string         `json:"hint,omitempty"`
}

// problem maps e to RFC 7807.
func problem(e *belljar.Error) map[string]any {
	extensions := nonNil(maps.Clone(e.Details))
	extensions["code"] = e.Code
	if e.Hint != "" {
		extensions["hint"] = e.Hint
	}
	return map[string]any{
		"type": "urn:belljar:error:" + string(e.Code), "title": strings.ReplaceAll(string(e.Code), "_", " "),
		"detail": e.Message, "status": e.Code.Info().HTTP, "extensions": extensions,
	}
}

// retryAfter returns details.retry_after_sec rounded up to whole seconds, between one second and one day.
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

// SessionEnded reports whether err means that the session does not exist or has ended. An error about a file has a path; a conflict can
// be about a session that lives, and waits for an operator's approval.
func SessionEnded(err error) bool {
	var e *belljar.Error
	if !errors.As(err, &e) || e.Details["session_id"] == nil || e.Details["path"] != nil {
		return false
	}
	state, _ := e.Details["state"].(string)
	return e.Code == belljar.CodeNotFound || e.Code == belljar.CodeConflict && state != "" && belljar.SessionState(state).Ended()
}

// Renamed returns err with a door's own name of the field, also in the message: own names by those of the engine.
func Renamed(err error, names map[string]string) error {
	var e *belljar.Error
	if !errors.As(err, &e) {
		return err
	}
	field, _ := e.Details["field"].(string)
	name := field
	if names[name] == "" {
		name, _, _ = strings.Cut(field, "[") // an element of a list
	}
	own := names[name]
	if own == "" {
		return err
	}
	renamed := *e
	renamed.Message = strings.Replace(e.Message, name, own, 1)
	renamed.Details = maps.Clone(e.Details)
	renamed.Details["field"] = own + field[len(name):]
	return &renamed
}

// NoContents refuses a file without contents. in precedes the names of its fields.
func NoContents(in string) error {
	e := Refuse(in+"contents", "one of %scontents and %scontents_b64 is required", in, in)
	e.Hint = "\"contents\": \"\" makes an empty file"
	return e
}

// HintIn returns the hint of a run, with a door's own name of timeout_sec.
func HintIn(run belljar.Run, own string) string {
	return strings.Replace(run.Hint, "timeout_sec (--timeout)", own+" (--timeout)", 1)
}

// InUnit is [Renamed] for a field with a unit of the door's own. One of the engine's units is per of the door's.
func InUnit(err error, name, own, unit string, per float64) error {
	var e *belljar.Error
	if !errors.As(err, &e) || e.Details["field"] != name {
		return err
	}
	got, isNumber := e.Details["provided"].(float64)
	most, limited := e.Details["maximum"].(float64)
	if !isNumber || !limited {
		return Renamed(err, map[string]string{name: own})
	}
	scaled := *e
	scaled.Message = fmt.Sprintf("%s is limited to %s %s here, got %s", own, plainNumber(most*per), unit, plainNumber(got*per))
	scaled.Details = maps.Clone(e.Details)
	scaled.Details["field"], scaled.Details["provided"], scaled.Details["maximum"] = own, got*per, most*per
	return &scaled
}

// plainNumber is a number without an exponent.
func plainNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
