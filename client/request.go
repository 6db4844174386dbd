package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

// request is one HTTP request.
type request struct {
	method string
	path   string
	query  url.Values
	header http.Header
	send   any           // as JSON; nil for no body
	stream io.Reader     // in place of send; such a request is never retried
	size   int64         // of stream; 0 if it is unknown
	once   bool          // not idempotent
	longer time.Duration // added to Options.Silence
	sent   *delivery     // tracks the tries, unless nil
}

// maxAnswer limits a JSON response, in bytes.
const maxAnswer = 32 << 20

// get sends a GET request and decodes its JSON response.
func (c *Client) get(ctx context.Context, to any, query url.Values, parts ...string) error {
	return c.ask(ctx, request{method: http.MethodGet, path: route(parts...), query: query}, to)
}

// items is get for a whole list.
func items[T any](ctx context.Context, c *Client, query url.Values, parts ...string) ([]T, error) {
	var list struct {
		Items []T `json:"items"`
	}
	err := c.get(ctx, &list, query, parts...)
	return list.Items, err
}

// ask sends a request and decodes its response into to, unless that is nil.
func (c *Client) ask(ctx context.Context, r request, to any) error {
	return c.retry(ctx, r, func(resp *http.Response) error {
		defer resp.Body.Close()
		raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // to its end, so that the connection can be reused
		if err != nil {
			return c.transportError(ctx, "the server's answer broke off", err)
		}
		if to == nil || resp.StatusCode == http.StatusNoContent {
			return nil
		}
		if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "application/json" {
			return unexpected(resp)
		}
		if err := json.Unmarshal(raw, to); err != nil || string(bytes.TrimSpace(raw)) == "null" {
			e := unexpected(resp)
			e.Err = err
			return e
		}
		return nil
	})
}

// open sends a request and returns its response. The caller closes the body.
func (c *Client) open(ctx context.Context, r request) (resp *http.Response, err error) {
	err = c.retry(ctx, r, func(got *http.Response) error {
		resp = got
		return nil
	})
	return resp, err
}

// contentsOf returns the body of a response for the caller.
func contentsOf(ctx context.Context, c *Client, resp *http.Response, what string) io.ReadCloser {
	return &contents{resp.Body, func(err error) error { return callerError(c.transportError(ctx, "the "+what+" broke off", err)) }}
}

type contents struct {
	io.ReadCloser
	failed func(error) error
}

func (c *contents) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = c.failed(err)
	}
	return n, err
}

// retry sends a request, with retries, and calls take with a successful response. It also retries after a passing error of
// take.
func (c *Client) retry(ctx context.Context, r request, take func(*http.Response) error) error {
	var body []byte
	if r.send != nil {
		var err error
		if body, err = json.Marshal(r.send); err != nil {
			return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the request cannot be sent", Err: err}
		}
		if err = checkText(body); err != nil {
			return err
		}
	}
	reported := false
	for tries := (backoff{patience: c.opts.Patience}); ; tries.next() {
		resp, err := c.attempt(ctx, r, body)
		if err == nil {
			err = take(resp)
		}
		if err == nil {
			return nil
		}
		if r.sent != nil {
			r.sent.failed(err)
		}
		pause, passing := tries.after(err)
		passing = passing && (!r.once || undone(err)) && r.stream == nil && ctx.Err() == nil
		if passing && !reported && (tries.failures == 1 || tries.failures == 0 && pause >= time.Second) {
			reported = true
			c.opts.sayBroken(err, tries.until(err, pause))
		}
		if !passing || !again(ctx, pause, err) {
			if over := contextError(ctx); over != nil {
				return over
			}
			return callerError(err)
		}
	}
}

// checkText refuses a request in which package json has replaced bytes that are not UTF-8. Package json escapes only these, not a U+FFFD of the caller.
func checkText(body []byte) error {
	mark := []byte(`\ufffd`)
	if !bytes.Contains(body, mark) {
		return nil
	}
	if !bytes.Contains(bytes.ReplaceAll(body, []byte(`\\`), nil), mark) { // an escaped backslash is not part of the mark
		return nil
	}
	return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "a name or a text of the request is not UTF-8", Hint: "send other bytes in a file"}
}

// checkHeader refuses values that package http would not send, because its error looks like a network error.
func checkHeader(h http.Header) error {
	for name, values := range h {
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return &belljar.Error{
					Code: belljar.CodeInvalidRequest, Message: name + " has characters that cannot be sent", Details: map[string]any{"field": name},
				}
			}
		}
	}
	return nil
}

// attempt sends a request once, with body as JSON unless that is nil, and returns a successful response.
func (c *Client) attempt(ctx context.Context, r request, body []byte) (*http.Response, error) {
	ctx, w := watch(ctx, c.opts.Silence+r.longer)
	if r.sent != nil {
		ctx = r.sent.trace(ctx)
	}
	var from io.Reader
	switch {
	case body != nil:
		from = bytes.NewReader(body)
	case r.stream != nil:
		from = &sending{breakable(ctx, r.stream), w}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base.String()+r.path, from)
	if err != nil {
		w.end()
		return nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the request cannot be sent", Err: err}
	}
	if r.size > 0 {
		req.ContentLength = r.size
	}
	req.URL.RawQuery = r.query.Encode()
	req.Header.Set("Accept", "application/json")
	maps.Copy(req.Header, r.header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.authorize(req.Header)
	if err := checkHeader(req.Header); err != nil {
		w.end()
		return nil, err
	}
	w.start()
	resp, err := c.http.Do(req)
	w.stop() // until the caller reads the body
	if err != nil {
		defer w.end()
		return nil, c.unreachable(ctx, err)
	}
	c.met.Store(true)
	resp.Body = &receiving{resp.Body, w}
	if resp.StatusCode >= 300 {
		return nil, failure(resp)
	}
	return resp, nil
}
