package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
)

const (
	maxMessage  = 1 << 20          // of a stream, in bytes. Messages have at most 64 KB (docs/compatibility.md#frames)
	maxTerminal = 4 << 20          // of a terminal: a history of 512 KiB, whose control characters take six bytes in JSON
	pingEvery   = 15 * time.Second // also the timeout of a ping
)

// Frames follows a run's log over a WebSocket. If the connection breaks, Frames reconnects after the last frame, until
// the log's end, a permanent error (such as not found), ctx's end, or the end of Options.Patience.
func (r runs) Frames(ctx context.Context, id string, from uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		f := &follower{c: r.c, id: id, next: max(from, 1), yield: yield}
		if err := f.run(ctx); err != nil && !f.left {
			if ctx.Err() != nil {
				err = contextError(ctx)
			}
			yield(belljar.Frame{}, err)
		}
	}
}

// follower reads one run's log for one reader.
type follower struct {
	c        *Client
	id       string
	next     uint64 // the first seq that the reader has not seen
	yield    func(belljar.Frame, error) bool
	left     bool // the reader has stopped
	aside    bool // the error of the run's input is for another reader
	received bool // the current connection has received a frame
}

func (f *follower) run(ctx context.Context) error {
	if err := f.resolveTail(ctx); err != nil {
		return err
	}
	patience := f.c.opts.Patience
	for tries := (backoff{patience: patience}); ; tries.next() {
		f.received = false
		err := f.follow(ctx)
		if f.left {
			return nil
		}
		if err == nil && f.aside {
			return nil
		}
		if err == nil {
			return f.c.awaitFeed(ctx, f.id)
		}
		if f.received {
			tries = backoff{patience: 10 * patience}
		}
		pause, passing := tries.after(err)
		passing = passing && ctx.Err() == nil
		if passing && tries.failures == 1 {
			f.c.opts.sayBroken(err, tries.deadline)
		}
		if !passing || !again(ctx, pause, err) {
			return callerError(err)
		}
	}
}

// resolveTail replaces the tail by its first seq, so that no frame is lost if the connection breaks before the first.
func (f *follower) resolveTail(ctx context.Context) error {
	if f.next != belljar.Tail {
		return nil
	}
	run, err := f.c.Runs().Get(ctx, f.id)
	if err != nil {
		return err
	}
	switch {
	case run.LastSeq == 0: // unknown
	case run.Phase.Terminal(): // the tail includes the end event
		f.next = run.LastSeq
	default:
		f.next = run.LastSeq + 1
	}
	return nil
}

// follow reads one connection. It returns nil at the log's end, and after the reader has stopped.
func (f *follower) follow(ctx context.Context) error {
	from := "tail"
	if f.next != belljar.Tail {
		from = strconv.FormatUint(f.next, 10)
	}
	conn, err := f.c.dial(ctx, f.id, from)
	if err != nil {
		return err
	}
	defer conn.end()
	ctx, stop := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { conn.keepAlive(ctx, stop) })
	defer keeping.Wait()
	defer stop(nil)
	for {
		frame, err := conn.read(ctx)
		if errors.Is(err, errEndOfLog) {
			return nil
		}
		if err != nil {
			return f.c.broken(ctx, err)
		}
		f.received = true
		if frame.Type == belljar.FrameEvent && frame.Event == belljar.EventResume && f.next != belljar.Tail {
			f.next = min(f.next, frame.Seq) // lower if the log is shorter than that
		}
		if note(frame) || frame.Seq < f.next && f.next != belljar.Tail {
			continue
		}
		f.next = frame.Seq + 1
		if !f.yield(frame, nil) {
			f.left = true
			return nil
		}
		if frame.Type == belljar.FrameEvent && frame.Event == belljar.EventEnd {
			return nil
		}
	}
}

// note reports whether a frame is not part of the log.
func note(f belljar.Frame) bool {
	return f.Type == belljar.FrameEvent && (f.Event == belljar.EventResume || f.Event == belljar.EventStdinClosed)
}

// broken returns the error for a stream that ended before its log. It is passing unless the close code is permanent.
func (c *Client) broken(ctx context.Context, err error) error {
	var e *belljar.Error
	if errors.As(err, &e) {
		return err
	}
	var closed websocket.CloseError
	if errors.As(err, &closed) {
		switch closed.Code {
		case websocket.StatusGoingAway, websocket.StatusInternalError, websocket.StatusTryAgainLater, websocket.StatusServiceRestart, websocket.StatusBadGateway:
		case closeUnauthorized:
			return &belljar.Error{Code: belljar.CodeUnauthorized, Message: closed.Reason}
		default:
			return &belljar.Error{Code: belljar.CodeInternal, Message: fmt.Sprintf("the server ended the stream: %s", closed.Reason), Err: err}
		}
	}
	if errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	return c.transportError(ctx, "the stream broke", err)
}

// link is one WebSocket.
type link struct {
	*websocket.Conn
	w       *watcher
	reading atomic.Bool
	pulse   pulse
}

// dial opens a run's stream.
func (c *Client) dial(ctx context.Context, id, from string) (*link, error) {
	return c.connect(ctx, route("runs", id, "stream"), url.Values{"from_seq": {from}})
}

// connect opens a WebSocket. The error may be passing.
func (c *Client) connect(ctx context.Context, path string, query url.Values) (*link, error) {
	l := &link{}
	opts := &websocket.DialOptions{HTTPClient: c.sock, HTTPHeader: map[string][]string{}, OnPingReceived: l.pulse.answers}
	c.authorize(opts.HTTPHeader)
	watched, w := watch(ctx, c.opts.Silence)
	w.start()
	address := c.base.String() + path + "?" + query.Encode()
	conn, resp, err := websocket.Dial(watched, address, opts)
	w.stop()
	if resp != nil {
		c.met.Store(true)
	}
	switch {
	case err == nil:
		conn.SetReadLimit(maxMessage)
		l.Conn, l.w = conn, w
		return l, nil
	case resp != nil && resp.StatusCode != 101:
		defer w.end()
		return nil, failure(resp)
	}
	defer w.end()
	return nil, c.unreachable(watched, err)
}

// end cuts the connection.
func (l *link) end() {
	_ = l.CloseNow() // closed even after an error
	l.w.end()
}

// errEndOfLog is the regular end of a stream.
var errEndOfLog = errors.New("end of log")

// read returns the next frame.
func (l *link) read(ctx context.Context) (f belljar.Frame, err error) {
	message, err := l.message(ctx)
	switch {
	case websocket.CloseStatus(err) == websocket.StatusNormalClosure:
		return f, errEndOfLog
	case err != nil:
		return f, err
	}
	if err := json.Unmarshal(message, &f); err != nil {
		return f, &belljar.Error{Code: belljar.CodeInternal, Message: "the stream cannot be read", Err: err}
	}
	return f, nil
}

// message returns the next message.
func (l *link) message(ctx context.Context) ([]byte, error) {
	l.reading.Store(true)
	defer l.reading.Store(false)
	_, raw, err := l.Read(ctx)
	return raw, err
}
