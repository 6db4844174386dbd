package shell

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/belljar/belljar/internal/api"
)

// The largest bodies: a command of 1 MiB with every byte escaped, and a file as base64.
const (
	maxCommand = 8 << 20
	maxFile    = 48 << 20
)

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

// decode reads the request's body, one JSON object with known fields. An empty body is an empty object.
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

// number reads a parameter from 1 to most; without it, it is usual.
func number(q url.Values, name string, usual, most int64) (int64, error) {
	text := q.Get(name)
	if !q.Has(name) {
		return usual, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > most {
		e := api.Refuse(name, "%s must be a whole number from 1 to %d, got %.40q", name, most, text)
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
		return false, api.Refuse(name, "%s must be true or false, got %.40q", name, text)
	}
}
