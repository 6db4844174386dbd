package shell

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// The largest bodies: a command of 1 MiB with every byte escaped, and a file as base64.
const (
	maxCommand = 8 << 20
	maxFile    = 48 << 20
)

func refuse(field, format string, args ...any) *belljar.Error {
	e := &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
	if field != "" {
		e.Details = map[string]any{"field": field}
	}
	return e
}

// write answers with JSON.
func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(body) // a client that is gone needs no answer
}

func (c *call) answer(body any) error {
	write(c.w, http.StatusOK, body)
	return nil
}

// ok is the answer of what has nothing to say.
func (c *call) ok() error { return c.answer(map[string]bool{"ok": true}) }

// decode reads the request's body, one JSON object with known fields.
func (c *call) decode(limit int64, to any) error {
	api.LimitBody(c.w, c.r, limit)
	give, err := c.door.opts.Bodies.Take(c.r.Context(), api.CallerOf(c.r.Context()).ID, api.Announced(c.r.ContentLength, limit))
	if err != nil {
		return err
	}
	defer give()
	data, err := io.ReadAll(c.r.Body)
	if err != nil {
		var e *belljar.Error
		if errors.As(err, &e) {
			return e
		}
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return &belljar.Error{
				Code: belljar.CodeTooLarge, Message: fmt.Sprintf("the body is limited to %d bytes", limit), Details: map[string]any{"maximum": limit},
			}
		}
		return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the body cannot be read", Err: err}
	}
	return parse(data, to)
}

// parse decodes a JSON object strictly: text is Unicode, fields are known.
func parse(data []byte, to any) error {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		data = []byte("{}")
	}
	if !utf8.Valid(data) {
		return refuse("", "the body is not valid UTF-8")
	}
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	err := in.Decode(to)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		return refuse(kind.Field, "%s must be %s, not %s", orBody(kind.Field), kind.Type, kind.Value)
	case err != nil:
		text := strings.TrimPrefix(err.Error(), "json: ")
		if name, unknown := strings.CutPrefix(text, "unknown field "); unknown {
			name = strings.Trim(name, `"`)
			return refuse(name, "unknown field %q", name)
		}
		return refuse("", "the body is not JSON: %s", text)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return refuse("", "the body has more than one value")
	}
	return nil
}

func orBody(field string) string {
	if field == "" {
		return "the body"
	}
	return field
}

// query reads the request's parameters, each of which is known and given once at most.
func (c *call) query(known ...string) (url.Values, error) {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, refuse("", "the query cannot be read: %v", err)
	}
	for name, list := range values {
		switch {
		case !slices.Contains(known, name):
			return nil, refuse(name, "unknown parameter %q", name)
		case len(list) > 1:
			return nil, refuse(name, "%s is given more than once", name)
		}
	}
	return values, nil
}

// number reads a parameter from 1 to most; without it, it is usual.
func number(q url.Values, name string, usual, most int64) (int64, error) {
	text := q.Get(name)
	if !q.Has(name) {
		return usual, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > most {
		e := refuse(name, "%s must be a whole number from 1 to %d, got %.40q", name, most, text)
		e.Details["provided"], e.Details["maximum"] = text, most
		return 0, e
	}
	return n, nil
}

// truth reads a parameter that is true or false; without it, it is false.
func truth(q url.Values, name string) (bool, error) {
	switch text := q.Get(name); text {
	case "true", "1":
		return true, nil
	case "", "false", "0":
		return false, nil
	default:
		return false, refuse(name, "%s must be true or false, got %.40q", name, text)
	}
}
