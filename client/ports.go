package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
)

// ports implements [belljar.Ports].
type ports struct{ c *Client }

var _ belljar.Ports = ports{}

// List returns the ports that programs in a session listen on.
func (p ports) List(ctx context.Context, sessionID string) ([]belljar.Port, error) {
	return items[belljar.Port](ctx, p.c, nil, "sessions", sessionID, "ports")
}

// Preview makes a preview. It is not retried after a broken connection.
func (p ports) Preview(ctx context.Context, sessionID string, spec belljar.PreviewSpec) (belljar.Preview, error) {
	var made belljar.Preview
	err := p.c.ask(ctx, request{method: http.MethodPost, path: route("sessions", sessionID, "previews"), send: spec, once: true}, &made)
	return made, err
}

// Previews returns a session's previews.
func (p ports) Previews(ctx context.Context, sessionID string) ([]belljar.Preview, error) {
	return items[belljar.Preview](ctx, p.c, nil, "sessions", sessionID, "previews")
}

// Revoke ends a preview. A retried request may not find it.
func (p ports) Revoke(ctx context.Context, sessionID, label string) error {
	return p.c.ask(ctx, request{method: http.MethodDelete, path: route("sessions", sessionID, "previews", label), once: true}, nil)
}

// closeReset is the server's close code for a connection that the program has reset.
const closeReset websocket.StatusCode = 4012

// Dial connects to a port over a WebSocket. It retries the connection for Options.Patience. If it breaks later, reads and writes
// fail with [belljar.CodeRuntimeUnavailable], or with [syscall.ECONNRESET] if the program has reset it.
func (p ports) Dial(ctx context.Context, sessionID string, port int) (belljar.PortConn, error) {
	if err := belljar.CheckPort(port); err != nil {
		return nil, err
	}
	conn, err := reach(ctx, p.c.opts.Patience, func() (*portConn, error) { return p.c.tunnel(ctx, sessionID, port) })
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// tunnel opens a tunnel and waits until the program has accepted. The error may be [passing].
func (c *Client) tunnel(ctx context.Context, sessionID string, port int) (*portConn, error) {
	t := &portConn{client: c}
	t.ctx, t.stop = context.WithCancel(c.ctx)
	defer context.AfterFunc(ctx, t.stop)() // ctx limits only the opening
	link, err := c.connect(t.ctx, route("sessions", sessionID, "ports", strconv.Itoa(port), "tunnel"), nil)
	if err == nil {
		t.link = link
		link.SetReadLimit(-1)
		watched, w := watch(t.ctx, c.opts.Silence)
		w.start()
		var m terminalMessage
		if m, err = t.hello(watched); err == nil && m.Type == "error" {
			err = m.failure()
		} else if err == nil && m.Type != "open" {
			err = &belljar.Error{Code: belljar.CodeInternal, Message: "the tunnel cannot be read"}
		}
		if websocket.CloseStatus(err) == closeReset {
			err = t.fault(err)
		} else if err != nil {
			err = c.broken(t.ctx, err)
		}
		w.end()
	}
	if err != nil {
		t.stop()
		if t.link != nil {
			t.link.end()
		}
		if over := contextError(ctx); over != nil {
			return nil, over
		}
		return nil, err
	}
	return t, nil
}

// portConn is a connection to a program in a session.
type portConn struct {
	*link
	client *Client
	ctx    context.Context
	stop   context.CancelFunc

	reading sync.Mutex // guards the next two fields
	message io.Reader  // rest of a message; nil between messages
	readErr error

	writing sync.Mutex // guards the next field
	shut    bool       // the program was sent the end of file
	once    sync.Once
}

// hello reads the server's first message.
func (t *portConn) hello(ctx context.Context) (m terminalMessage, err error) {
	kind, raw, err := t.link.Conn.Read(ctx)
	if err == nil && (kind != websocket.MessageText || json.Unmarshal(raw, &m) != nil) {
		err = &belljar.Error{Code: belljar.CodeInternal, Message: "the tunnel cannot be read"}
	}
	return m, err
}

// closeTime is how long Close waits for a write.
const closeTime = 5 * time.Second

// Read implements [io.Reader].
func (t *portConn) Read(p []byte) (int, error) {
	t.reading.Lock()
	defer t.reading.Unlock()
	for t.readErr == nil {
		if t.message == nil {
			t.message, t.readErr = t.next()
			continue
		}
		n, err := t.message.Read(p)
		if errors.Is(err, io.EOF) {
			t.message, err = nil, nil
		}
		t.readErr = t.fault(err)
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
	return 0, t.readErr
}

// next returns the next message with bytes.
func (t *portConn) next() (io.Reader, error) {
	kind, message, err := t.Reader(t.ctx)
	if err != nil {
		return nil, t.fault(err)
	}
	if kind == websocket.MessageBinary {
		return message, nil
	}
	var m terminalMessage
	if err := json.NewDecoder(io.LimitReader(message, 64<<10)).Decode(&m); err != nil {
		return nil, t.fault(err)
	}
	switch m.Type {
	case "eof":
		return nil, io.EOF
	case "error":
		return nil, m.failure()
	}
	return nil, &belljar.Error{Code: belljar.CodeInternal, Message: fmt.Sprintf("the tunnel cannot be read: message %.20q", m.Type)}
}

// Write implements [io.Writer]. It sends messages of at most 32 KiB.
func (t *portConn) Write(p []byte) (n int, err error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	if t.shut {
		return 0, io.ErrClosedPipe
	}
	for len(p) > 0 {
		piece := p[:min(len(p), inputFrame)]
		if err := t.say(t.ctx, websocket.MessageBinary, piece); err != nil {
			return n, t.fault(err)
		}
		n += len(piece)
		p = p[len(piece):]
	}
	return n, nil
}

// CloseWrite sends the end of file to the program.
func (t *portConn) CloseWrite() error {
	t.writing.Lock()
	defer t.writing.Unlock()
	if t.shut {
		return nil
	}
	t.shut = true
	return t.fault(t.say(t.ctx, websocket.MessageText, []byte(`{"type":"eof"}`)))
}

// Close ends the connection. The program still receives the written bytes.
func (t *portConn) Close() error {
	t.once.Do(func() {
		late := time.AfterFunc(closeTime, t.stop) // a running write ends with the connection
		defer late.Stop()
		_ = t.CloseWrite() // fails if the connection is broken
		t.end()
	})
	return nil
}

// Abort cuts the connection; the program sees a reset.
func (t *portConn) Abort() error {
	t.once.Do(t.end)
	return nil
}

func (t *portConn) end() {
	t.stop()
	t.link.end()
}

// fault explains an error of the WebSocket.
func (t *portConn) fault(err error) error {
	switch {
	case err == nil:
		return nil
	case websocket.CloseStatus(err) == closeReset:
		return &net.OpError{Op: "read", Net: "tunnel", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	case websocket.CloseStatus(err) == websocket.StatusNormalClosure:
		return io.EOF
	case t.ctx.Err() != nil && t.client.ctx.Err() == nil:
		return net.ErrClosed
	}
	return callerError(t.client.broken(t.ctx, err))
}
