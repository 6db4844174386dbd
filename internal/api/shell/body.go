package shell

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"

	"github.com/belljar/belljar/internal/api"
)

// Limits of bodies: a command of 1 MiB with every byte escaped, and a file as base64.
const (
	maxCommand = 8 << 20
	maxFile    = 48 << 20
)

func (c *call) answer(body any) error {
	api.WriteJSON(c.w, http.StatusOK, body)
	return nil
}

// ok responds with {"ok": true}.
func (c *call) ok() error { return c.answer(map[string]bool{"ok": true}) }

// decode decodes the request's body, one JSON object. An empty body is the same as an empty object.
func (c *call) decode(limit int64, to any) error {
	data, give, err := c.door.opts.Bodies.ReadBody(c.w, c.r, limit)
	if err != nil {
		return err
	}
	defer give()
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}
	return api.Decode(data, to)
}

// reserve reserves the caller's share for an answer of n bytes, until it is encoded or release.
func (c *call) reserve(n int64) (release func(), err error) {
	return c.door.opts.Bodies.ForAnswer(c.r.Context(), n)
}

// number parses a parameter from 1 to maximum; fallback is its default.
func number(q url.Values, name string, fallback, maximum int64) (int64, error) {
	text := q.Get(name)
	if !q.Has(name) {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > maximum {
		e := api.Refuse(name, "%s must be a whole number from 1 to %d, got %.40q", name, maximum, text)
		e.Details["provided"], e.Details["maximum"] = text, maximum
		return 0, e
	}
	return n, nil
}

// boolean parses a parameter that is true or false; its default is false.
func boolean(q url.Values, name string) (bool, error) {
	switch text := q.Get(name); text {
	case "true", "1":
		return true, nil
	case "", "false", "0":
		return false, nil
	default:
		return false, api.Refuse(name, "%s must be true or false, got %.40q", name, text)
	}
}
