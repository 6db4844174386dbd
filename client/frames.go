package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
)

// Bounds of a stream.
const (
	maxMessage = 1 << 20          // S0 §9: 64 KB; more only so that a mistake is told and not cut
	pingEvery  = 15 * time.Second // a connection is dead when a ping is not answered within as much again
)

// Frames follows a run's log over a WebSocket. When that breaks it is opened again behind the last frame that came, until
// the end event, an answer that will not change (such as not found), or ctx's end.
func (r runs) Frames(ctx context.Context, id string, from uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		for failures := backoff(0); ; failures.next() {
			before := from
			done, err := r.c.follow(ctx, id, &from, yield)
			switch {
			case done:
				return
			case ctx.Err() != nil:
				yield(belljar.Frame{}, context.Cause(ctx))
				return
			case final(err):
				yield(belljar.Frame{}, err)
				return
			}
			if from != before {
				failures = 0
			}
			sleep(ctx, failures.pause())
		}
	}
}

// final reports whether trying again cannot help.
func final(err error) bool {
	switch belljar.CodeOf(err) {
	case belljar.CodeRateLimited, belljar.CodeRuntimeUnavailable, belljar.CodeTimeout:
		return false
	}
	return err != nil
}

// follow reads one connection. done says that the log has been read to its end, or that nobody wants more of it; from is the
// seq that comes next.
func (c *Client) follow(
	ctx context.Context, id string, from *uint64, yield func(belljar.Frame, error) bool,
) (done bool, err error) {
	conn, err := c.dial(ctx, id, *from)
	if err != nil {
		return false, err
	}
	defer conn.CloseNow()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go keepAlive(ctx, conn, stop)
	for {
		_, message, err := conn.Read(ctx)
		if err != nil {
			return false, &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "the stream broke", Err: err}
		}
		var f belljar.Frame
		if err := json.Unmarshal(message, &f); err != nil {
			return false, &belljar.Error{Code: belljar.CodeInternal, Message: "the stream cannot be read", Err: err}
		}
		if note(f) || f.Seq < *from && *from != belljar.Tail {
			continue
		}
		*from = f.Seq + 1
		if !yield(f, nil) {
			return true, nil
		}
		if f.Type == belljar.FrameEvent && f.Event == belljar.EventEnd {
			_ = conn.Close(websocket.StatusNormalClosure, "")
			return true, nil
		}
	}
}

// note reports whether a frame is for this connection only.
func note(f belljar.Frame) bool {
	return f.Type == belljar.FrameEvent && (f.Event == belljar.EventResume || f.Event == belljar.EventStdinClosed)
}

// dial opens a run's stream.
func (c *Client) dial(ctx context.Context, id string, from uint64) (*websocket.Conn, error) {
	query := url.Values{}
	switch {
	case from == belljar.Tail:
		query.Set("from_seq", "tail")
	case from > 1:
		query.Set("from_seq", strconv.FormatUint(from, 10))
	default:
		query.Set("from_seq", "1")
	}
	header := http.Header{}
	c.authorize(header)
	conn, resp, err := websocket.Dial(ctx, c.base.String()+route("runs", id, "stream")+"?"+query.Encode(), &websocket.DialOptions{
		HTTPClient: c.http, HTTPHeader: header,
	})
	if err == nil {
		conn.SetReadLimit(maxMessage)
		return conn, nil
	}
	if resp != nil && resp.StatusCode >= 400 {
		return nil, failure(resp)
	}
	return nil, c.foreign(ctx, "server "+c.base.Host+" cannot be reached", err)
}

var errSilent = errors.New("the server does not answer")

// keepAlive ends ctx when the other end is gone without a word.
func keepAlive(ctx context.Context, conn *websocket.Conn, stop context.CancelCauseFunc) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ping, cancel := context.WithTimeout(ctx, pingEvery)
		err := conn.Ping(ping)
		cancel()
		if err != nil {
			stop(fmt.Errorf("%w: %w", errSilent, err))
			return
		}
	}
}
