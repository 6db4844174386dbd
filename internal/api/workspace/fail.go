package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/socket"
)

// fault is an error with a status and a text of the API.
type fault struct {
	status int
	text   string
}

func (f fault) Error() string { return f.text }

// missing is an error about one parameter of a request, or several.
type missing []lack

// lack is one parameter that is missing or wrong.
type lack struct {
	Loc  []string `json:"loc"` // query or body, and the name
	Msg  string   `json:"msg"`
	Type string   `json:"type"`
}

func (m missing) Error() string { return m[0].Msg }

func lacks(place, name string) lack { return lack{[]string{place, name}, "Field required", "missing"} }

type detailed struct {
	Detail any `json:"detail"`
}

// fail responds with err, in the API's form, or in Belljar's if the client accepts application/problem+json.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	var own fault
	var bad missing
	switch {
	case errors.As(err, &bad):
		write(w, http.StatusUnprocessableEntity, detailed{bad})
	case errors.As(err, &own):
		write(w, own.status, detailed{own.text})
	case strings.Contains(r.Header.Get("Accept"), "application/problem+json"):
		api.Fail(w, r, err)
	default:
		e, header := api.Explain(r.Context(), err)
		maps.Copy(w.Header(), header)
		write(w, e.Code.Info().HTTP, detailed{textOf(e)})
	}
}

// textOf returns the text of a public error: the API's own if there is one.
func textOf(e *belljar.Error) string {
	switch e.Code {
	case belljar.CodeInternal:
		return "Internal server error"
	case belljar.CodeRateLimited:
		return "Rate limit exceeded"
	}
	return messageOf(e)
}

// messageOf returns the text of an error over a WebSocket.
func messageOf(e *belljar.Error) string {
	if e.Code == belljar.CodeUnauthorized {
		return "Authentication required"
	}
	return e.Message
}

// write responds with v as JSON; bytes are JSON already.
func write(w http.ResponseWriter, status int, v any) {
	raw, ok := v.([]byte)
	if !ok {
		var err error
		if raw, err = socket.Encode(v); err != nil {
			status, raw = http.StatusInternalServerError, []byte(`{"detail":"Internal server error"}`)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Del("Content-Length")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // fails only if the client is gone
}

// tagged is a response that clients poll. It has an ETag.
type tagged struct{ v any }

// writeTagged responds with v and its ETag, or with 304 if the client has that.
func (c *call) writeTagged(v any) {
	raw, err := socket.Encode(v)
	if err != nil {
		fail(c.w, c.r, err)
		return
	}
	sum := sha256.Sum256(raw)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	if file, ok := v.(content); ok && file.tag != "" {
		tag = file.tag
	}
	c.w.Header().Set("ETag", tag)
	c.w.Header().Set("Cache-Control", "no-cache")
	if api.Matches(strings.Join(c.r.Header.Values("If-None-Match"), ","), tag) {
		c.w.WriteHeader(http.StatusNotModified)
		return
	}
	write(c.w, http.StatusOK, raw)
}

// query returns a query parameter, or fallback if it is not given. Without a fallback it is required.
func (c *call) query(name string, fallback ...string) (string, error) {
	values := c.r.URL.Query()[name]
	switch {
	case len(values) > 0:
		return values[len(values)-1], nil
	case len(fallback) > 0:
		return fallback[0], nil
	}
	return "", missing{lacks("query", name)}
}

// body returns fields of a JSON body: required texts.
func (c *call) body(names ...string) (map[string]string, error) {
	if err := api.CheckJSON(c.r); err != nil {
		return nil, err
	}
	raw, give, err := c.door.opts.Bodies.ReadBody(c.w, c.r, c.door.maxFile)
	if err != nil {
		return nil, err
	}
	defer give()
	var given map[string]json.RawMessage
	// Invalid Unicode would be stored as U+FFFD: the file would differ from the request.
	if !utf8.Valid(raw) || api.LoneSurrogate(raw) || json.Unmarshal(raw, &given) != nil || given == nil {
		return nil, missing{{[]string{"body"}, "JSON decode error", "json_invalid"}}
	}
	var bad missing
	fields := map[string]string{}
	for _, name := range names {
		var text *string
		if given[name] == nil {
			bad = append(bad, lacks("body", name))
		} else if json.Unmarshal(given[name], &text) != nil || text == nil {
			bad = append(bad, lack{[]string{"body", name}, "Input should be a valid string", "string_type"})
		} else {
			fields[name] = *text
		}
	}
	if bad != nil {
		return nil, bad
	}
	return fields, nil
}
