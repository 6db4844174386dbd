package upstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"math"
	mathrand "math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// RequestIDHeader carries the id of a request from server to server.
const RequestIDHeader = "X-Request-Id"

// attempts is the maximum number of times that an idempotent request is sent, and callTime the maximum time for all of them.
const (
	attempts = 3
	callTime = 30 * time.Second
	// firstPause is the maximum pause before the second attempt. Each further one is twice as long.
	firstPause = 200 * time.Millisecond
	// longestPause is the maximum wait that a server may request; for more, the request fails.
	longestPause = 5 * time.Second
)

// Call is a request for JSON.
type Call struct {
	Method string // "" is GET
	Path   string // below the server's own
	Query  url.Values
	ID     string // of the request; "" generates one
	Into   any    // variable for the response; nil discards it unparsed
}

// Do sends a request. While the server does not answer, it retries a GET after a random pause. The header is that of the response; the
// error is a [*Failure] or the context's.
func (g *Guard) Do(ctx context.Context, c Call) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	most := 1
	if c.Method == "" {
		c.Method, most = http.MethodGet, attempts
	}
	pause := firstPause
	for n := 1; ; n++ {
		header, err := g.once(ctx, c)
		if n >= most || !again(err) {
			return header, err
		}
		wait := mathrand.N(pause)
		if asked, ok := retryAfter(header); ok {
			if asked > longestPause {
				return header, err
			}
			wait += asked
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return header, err
		}
		pause *= 2
	}
}

// again reports whether a further attempt may succeed.
func again(err error) bool {
	var f *Failure
	return errors.As(err, &f) && f.Reason == Unreachable && !f.early
}

func retryAfter(h http.Header) (time.Duration, bool) {
	n, err := strconv.ParseUint(h.Get("Retry-After"), 10, 32) // more seconds may not fit into a duration
	if errors.Is(err, strconv.ErrRange) {
		return math.MaxInt64, true
	}
	return time.Duration(n) * time.Second, err == nil
}

// once sends a request once.
func (g *Guard) once(ctx context.Context, c Call) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, c.Method, g.URL(c.Path, c.Query), nil)
	if err != nil {
		return nil, refused("a request that cannot be written")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set(RequestIDHeader, cmp.Or(c.ID, rand.Text()))
	resp, err := g.send(req, true)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if f := ofStatus(resp.StatusCode); f != nil {
		return resp.Header, f // the body may contain a token, so it is not read
	}
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil && ctx.Err() == context.Canceled:
		return resp.Header, context.Cause(ctx)
	case err != nil:
		return resp.Header, unanswered(err)
	case c.Into == nil:
		return resp.Header, nil
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || json.Unmarshal(body, c.Into) != nil {
		return resp.Header, &Failure{Reason: BadPath, Status: resp.StatusCode, text: "it answers with something other than the expected JSON"}
	}
	return resp.Header, nil
}
