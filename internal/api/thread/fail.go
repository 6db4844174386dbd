package thread

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// fault is the flat body of an error.
type fault map[string]any

// maxBody is how many bytes a JSON body may have: a command of the longest, escaped.
const maxBody = 2 << 20

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(body) // a client that is gone needs no answer
}

// fail answers with an error of Belljar's in the API's form: its message, and its code beside it.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	e, header := api.Explain(r.Context(), err)
	for name, values := range header {
		w.Header()[name] = values
	}
	body := fault{"error": e.Message, "code": e.Code}
	for name, value := range e.Details {
		if _, taken := body[name]; !taken {
			body[name] = value
		}
	}
	if e.Hint != "" {
		body["hint"] = e.Hint
	}
	write(w, e.Code.Info().HTTP, body)
}

func (c *call) fail(err error) { fail(c.w, c.r, err) }

// gone answers for a session that is none, or has ended, if that is what err says.
func (c *call) gone(err error, id string) bool {
	if !ended(err) {
		return false
	}
	write(c.w, http.StatusNotFound, fault{"error": "Invalid or expired session", "session_id": id})
	return true
}

// ended reports whether a session was not there, or not any more. A failure about a file names its path.
func ended(err error) bool {
	var e *belljar.Error
	if !errors.As(err, &e) {
		return false
	}
	_, session := e.Details["session_id"]
	_, file := e.Details["path"]
	return session && !file && (e.Code == belljar.CodeNotFound || e.Code == belljar.CodeConflict)
}

// decode reads a JSON body; false if it has answered.
func (c *call) decode(to any) bool {
	data, give, err := c.door.opts.Bodies.ReadBody(c.w, c.r, maxBody)
	if err != nil {
		c.fail(err)
		return false
	}
	defer give()
	if err := api.Decode(data, to); err != nil {
		write(c.w, http.StatusBadRequest, fault{"error": "Invalid request body: " + err.Error()})
		return false
	}
	return true
}

// query reads the one parameter that a request has; false if it has answered.
func (c *call) query(name string) (string, bool) {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil || len(values[name]) != 1 || values.Get(name) == "" {
		write(c.w, http.StatusBadRequest, fault{"error": name + " required"})
		return "", false
	}
	return values.Get(name), true
}

// required answers for a missing field; false if there is one.
func (c *call) required(fields ...[2]string) bool {
	for _, f := range fields {
		if f[1] == "" {
			write(c.w, http.StatusBadRequest, fault{"error": f[0] + " required"})
			return false
		}
	}
	return true
}
