package tunnel

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/socket"
)

const (
	// closeGrace limits the last message and the close handshake.
	closeGrace = 5 * time.Second
	// maxText limits a text message of the client.
	maxText = 4 << 10
	// pieceBytes is the size of the pieces in which a client's message goes to the program.
	pieceBytes = 32 << 10
)

// tunnel is a WebSocket and the TCP connection that it carries. Two goroutines move bytes, one in each direction.
type tunnel struct {
	door *Door
	ws   *websocket.Conn
	conn belljar.PortConn

	goroutines sync.WaitGroup
	finished   chan struct{} // closed when the program has the client's eof
}

// opened is the server's first message.
type opened struct {
	Type    string `json:"type"` // open
	Session string `json:"session_id"`
	Port    int    `json:"port"`
}

const typeEOF = "eof"

// closeReset is the close code after a reset by the program. The others are those of package socket.
const closeReset websocket.StatusCode = 4012

// failure is an error message.
type failure struct {
	Type    string         `json:"type"` // error
	Code    belljar.Code   `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
	Hint    string         `json:"hint,omitempty"`
}

// refused is the verdict for a failed request.
func refused(err error) socket.Verdict {
	code := belljar.CodeOf(err)
	var e *belljar.Error
	if code == belljar.CodeInternal || !errors.As(err, &e) {
		code, e = belljar.CodeInternal, &belljar.Error{Message: "internal error"}
	}
	v := socket.Verdict{
		Code: websocket.StatusPolicyViolation, Reason: e.Message, Message: failure{"error", code, e.Message, e.Details, e.Hint},
	}
	switch code {
	case belljar.CodeInternal:
		v.Code = websocket.StatusInternalError
	case belljar.CodeUnauthorized:
		v.Code = socket.CloseUnauthorized
	case belljar.CodeNotFound, belljar.CodeConflict: // a session that has ended
		v.Code = socket.CloseNotFound
	case belljar.CodeRuntimeUnavailable, belljar.CodeTimeout:
		v.Code = websocket.StatusTryAgainLater
	}
	return v
}

// run carries the connection to its end and returns the reason.
func (t *tunnel) run(ctx context.Context, first opened) socket.Verdict {
	// The library breaks a WebSocket whose context ends. This one outlives the request, so that the client learns why the request has
	// ended.
	wire, cancel := context.WithCancel(context.WithoutCancel(ctx))
	v := socket.Gone()
	if t.send(wire, first) == nil {
		v = t.carry(wire, ctx)
	}
	if err := api.Revoked(ctx); err != nil {
		_ = t.conn.Abort()
		v = refused(err)
	}
	t.close(v)
	cancel()
	select {
	case <-t.finished:
		_ = t.conn.Close() // the program still gets all bytes
	default:
		_ = t.conn.Abort()
	}
	t.goroutines.Wait()
	return v
}

// carry moves bytes until both directions have ended, or one has failed.
func (t *tunnel) carry(ctx, request context.Context) socket.Verdict {
	up, down := make(chan *socket.Verdict, 1), make(chan *socket.Verdict, 1)
	t.goroutines.Go(func() { up <- t.up(ctx) })
	t.goroutines.Go(func() { down <- t.down(ctx) })
	ping := time.NewTicker(t.door.opts.PingEvery)
	defer ping.Stop()
	finished := t.finished
	var last *socket.Verdict // to return when down has ended
	ended := false           // down has ended with the program's end of file
	for finished != nil || !ended {
		select {
		case v := <-up:
			if v.Code != closeReset || ended {
				return *v
			}
			last = v // the program may have sent something before the reset
		case <-finished:
			finished = nil
		case v := <-down:
			switch {
			case v != nil:
				return *v
			case last != nil:
				return *last
			}
			ended = true
		case <-t.door.drain.Closing().Done():
			return shutdown()
		case <-request.Done():
			return shutdown()
		case <-ping.C:
			t.goroutines.Go(func() { t.ping(ctx) })
		}
	}
	return socket.Verdict{Code: websocket.StatusNormalClosure, Reason: "both directions have ended"}
}

// ping keeps the connection alive at proxies. It ignores a missing pong, because a side under backpressure sends none. TCP detects
// clients that are gone.
func (t *tunnel) ping(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, t.door.opts.PingEvery)
	defer cancel()
	_ = t.ws.Ping(ctx)
}

// up moves bytes from the client to the program, until the client is gone or the program has reset the connection.
func (t *tunnel) up(ctx context.Context) *socket.Verdict {
	buf := make([]byte, pieceBytes)
	for {
		kind, message, err := t.ws.Reader(ctx)
		if err != nil {
			return lost(err)
		}
		if kind == websocket.MessageText {
			if v := t.command(message); v != nil {
				return v
			}
			if err := t.conn.CloseWrite(); err != nil {
				return reset(err)
			}
			close(t.finished)
			if _, _, err := t.ws.Reader(ctx); err != nil { // until the client closes
				return lost(err)
			}
			return broken("no message can follow the eof")
		}
		for {
			n, err := message.Read(buf)
			if n > 0 {
				if _, err := t.conn.Write(buf[:n]); err != nil {
					return reset(err)
				}
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return lost(err)
			}
		}
	}
}

// command reads a text message. Only eof is valid.
func (t *tunnel) command(message io.Reader) *socket.Verdict {
	raw, err := io.ReadAll(io.LimitReader(message, maxText+1))
	if err != nil {
		return lost(err)
	}
	var m socket.Typed
	if len(raw) > maxText || json.Unmarshal(raw, &m) != nil || m.Type != typeEOF {
		return broken(`a text message must be {"type":"eof"}; bytes are binary messages`)
	}
	return nil
}

// broken is the verdict for an invalid message.
func broken(text string) *socket.Verdict {
	return new(refused(&belljar.Error{Code: belljar.CodeInvalidRequest, Message: text}))
}

// down moves bytes from the program to the client. It returns nil after the end of file.
func (t *tunnel) down(ctx context.Context) *socket.Verdict {
	out := &writer{ctx: ctx, ws: t.ws}
	_, err := io.Copy(out, t.conn)
	switch {
	case out.err != nil:
		return lost(out.err)
	case err != nil:
		return reset(err)
	case t.send(ctx, socket.Typed{Type: typeEOF}) != nil:
		return lost(io.EOF)
	}
	return nil
}

// writer sends binary messages.
type writer struct {
	ctx context.Context
	ws  *websocket.Conn
	err error
}

func (w *writer) Write(p []byte) (int, error) {
	if err := w.ws.Write(w.ctx, websocket.MessageBinary, p); err != nil {
		w.err = err
		return 0, err
	}
	return len(p), nil
}

// send sends a text message.
func (t *tunnel) send(ctx context.Context, m any) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return t.ws.Write(ctx, websocket.MessageText, raw)
}

// close sends the verdict and closes the WebSocket.
func (t *tunnel) close(v socket.Verdict) {
	if v.Code != 0 {
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		if v.Code != websocket.StatusNormalClosure { // a client that does not read gets no more
			late := time.AfterFunc(closeGrace, func() { _ = t.ws.CloseNow() })
			defer late.Stop()
		}
		if v.Message != nil {
			_ = t.send(ctx, v.Message) // best effort: the client may be gone
		}
		_ = t.ws.Close(v.Code, v.Brief())
	}
	_ = t.ws.CloseNow()
}

// reset is the verdict for an error of the program's connection.
func reset(err error) *socket.Verdict {
	var e *belljar.Error
	if errors.As(err, &e) { // the session, or the server, has ended
		v := refused(err)
		if e.Code == belljar.CodeRuntimeUnavailable {
			v = shutdown()
		}
		return &v
	}
	return &socket.Verdict{Code: closeReset, Reason: "the program reset the connection"}
}

// lost is the verdict for a WebSocket that can no longer be read or written.
func lost(err error) *socket.Verdict {
	return new(socket.Lost(err))
}

func shutdown() socket.Verdict {
	return socket.Verdict{Code: websocket.StatusGoingAway, Reason: "server is shutting down"}
}
