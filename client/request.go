package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/belljar/belljar"
)

// request is one question to the server.
type request struct {
	method string
	path   string
	query  url.Values
	header http.Header
	body   []byte    // JSON; nil for none
	stream io.Reader // in place of body; makes the request one that cannot be repeated
	once   bool      // it must not be repeated
}

// maxAnswer bounds an answer that is decoded: a run with its output inline is the largest.
const maxAnswer = 32 << 20

// get asks for JSON.
func (c *Client) get(ctx context.Context, to any, query url.Values, parts ...string) error {
	return c.ask(ctx, request{method: http.MethodGet, path: route(parts...), query: query}, to)
}

// ask sends a request and decodes its answer into to, unless that is nil.
func (c *Client) ask(ctx context.Context, r request, to any) error {
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if to == nil || resp.StatusCode == http.StatusNoContent {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)) // so that the connection can be used again
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(to); err != nil {
		return c.foreign(ctx, "the server's answer to "+r.method+" "+r.path+" cannot be read", err)
	}
	return nil
}

// send sends a request, again if need be, and returns an answer that is no failure. The caller closes its body.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	deadline := time.Now().Add(c.opts.Patience)
	for wait := backoff(0); ; wait.next() {
		resp, err := c.attempt(ctx, r)
		if err == nil && resp.StatusCode < 300 {
			return resp, nil
		}
		pause := wait.pause()
		switch {
		case err != nil:
			err = c.foreign(ctx, "server "+c.base.Host+" cannot be reached", err)
		default:
			asked := false
			pause, asked = retryAfter(resp, pause)
			err = failure(resp)
			if !asked {
				return nil, err
			}
		}
		if r.once || r.stream != nil || ctx.Err() != nil || time.Now().Add(pause).After(deadline) {
			return nil, err
		}
		if !sleep(ctx, pause) {
			return nil, err
		}
	}
}

func (c *Client) attempt(ctx context.Context, r request) (*http.Response, error) {
	body := r.stream
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base.String()+r.path, body)
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = r.query.Encode()
	for name, values := range r.header {
		req.Header[name] = values
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.authorize(req.Header)
	return c.http.Do(req)
}

// foreign is a failure that the server did not tell.
func (c *Client) foreign(ctx context.Context, message string, err error) error {
	if ctx.Err() != nil {
		return &belljar.Error{Code: belljar.CodeCanceled, Message: "gave up", Err: context.Cause(ctx)}
	}
	var told *url.Error
	if errors.As(err, &told) {
		err = told.Err // without the address, whose query may hold a secret
	}
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: message, Err: err,
		Hint: "check the address, and that belljar serve is running there",
	}
}

// failure is the error that an answer tells. It closes the answer.
func failure(resp *http.Response) error {
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what is there says enough, or too little
	var told struct {
		Error *belljar.Error `json:"error"`
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "application/json" {
		if json.Unmarshal(raw, &told) == nil && told.Error != nil && told.Error.Code != "" {
			return told.Error
		}
	}
	e := &belljar.Error{
		Code: belljar.CodeInternal, Message: fmt.Sprintf("the server answered %s, which is no answer of belljar", resp.Status),
		Hint: "is that the address of a belljar, or of something before it",
	}
	for _, row := range belljar.Table() {
		if row.HTTP == resp.StatusCode {
			e.Code = row.Code
			break
		}
	}
	return e
}

// retryAfter tells whether an answer asks to come back, and when.
func retryAfter(resp *http.Response, otherwise time.Duration) (time.Duration, bool) {
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
	default:
		return 0, false
	}
	given := resp.Header.Get("Retry-After")
	if given == "" { // it will not be better soon
		return 0, resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusGatewayTimeout
	}
	if sec, err := strconv.ParseFloat(given, 64); err == nil && sec >= 0 {
		return jitter(max(time.Duration(min(sec, 3600)*float64(time.Second)), 50*time.Millisecond)), true
	}
	if at, err := http.ParseTime(given); err == nil {
		return jitter(max(time.Until(at), 50*time.Millisecond)), true
	}
	return otherwise, true
}

// backoff is how often something has failed in a row.
type backoff int

func (b *backoff) next() { *b++ }

// pause is how long to wait: from 0.2 s, doubling, to 30 s, give or take a tenth (S0 §28).
func (b backoff) pause() time.Duration {
	return jitter(min(200*time.Millisecond<<min(int(b), 10), 30*time.Second))
}

func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// sleep waits and reports whether it did so to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
