package thread

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// fault is the body of an error.
type fault map[string]any

// maxBody limits a JSON body, in bytes: the longest command, escaped.
const maxBody = 2 << 20

// fail responds with an error of Belljar in the API's form: its message and its code.
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
	api.WriteJSON(w, e.Code.Info().HTTP, body)
}

func (c *call) fail(err error) { fail(c.w, c.r, err) }

// left responds to a request that has ended before its response. Its client is gone, unless its credentials were revoked.
func (c *call) left() {
	if err := api.Revoked(c.r.Context()); err != nil {
		c.fail(err)
	}
}

// gone responds if err means that the session does not exist or has ended; false if not.
func (c *call) gone(err error, id string) bool {
	if !api.SessionEnded(err) {
		return false
	}
	api.WriteJSON(c.w, http.StatusNotFound, fault{"error": "Invalid or expired session", "session_id": id})
	return true
}

// aboutFile reports whether an error is about a path.
func aboutFile(err error) bool {
	var e *belljar.Error
	if !errors.As(err, &e) {
		return false
	}
	_, file := e.Details["path"]
	return file
}

// decode decodes a JSON body. If it is invalid, decode responds and returns false.
func (c *call) decode(to any) bool {
	data, give, err := c.door.opts.Bodies.ReadBody(c.w, c.r, maxBody)
	if err != nil {
		c.fail(err)
		return false
	}
	defer give()
	if err := api.Decode(data, to); err != nil {
		api.WriteJSON(c.w, http.StatusBadRequest, fault{"error": "Invalid request body: " + err.Error()})
		return false
	}
	return true
}

// query returns a required parameter. If it is missing, query responds and returns false.
func (c *call) query(name string) (string, bool) {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil || len(values[name]) != 1 || values.Get(name) == "" {
		api.WriteJSON(c.w, http.StatusBadRequest, fault{"error": name + " required"})
		return "", false
	}
	return values.Get(name), true
}

// required responds and returns false if a field, given as name and value, is empty.
func (c *call) required(fields ...[2]string) bool {
	for _, f := range fields {
		if f[1] == "" {
			api.WriteJSON(c.w, http.StatusBadRequest, fault{"error": f[0] + " required"})
			return false
		}
	}
	return true
}

// reserve reserves the caller's share for an answer of n bytes, until it is encoded or release. It waits for the session, unless it is "", first.
func (c *call) reserve(session string, n int64) (release func(), err error) {
	return c.door.opts.Bodies.ForFiles(c.r.Context(), c.service.Files(), session, n)
}
