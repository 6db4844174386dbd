package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
)

// Close codes beyond those of the protocol.
const (
	CloseUnauthorized websocket.StatusCode = 4001
	CloseUnknown      websocket.StatusCode = 4003 // a program that does not exist
	CloseNotFound     websocket.StatusCode = 4004
	CloseTimeout      websocket.StatusCode = 4008
	CloseOverflow     websocket.StatusCode = 4009
	CloseReplaced     websocket.StatusCode = 4010
)

// reasonClient is the reason in the metrics of a connection that the client has ended.
const reasonClient = "client"

// Verdict is the reason for the end of a connection.
type Verdict struct {
	Code    websocket.StatusCode // 0 if the connection is lost
	Reason  string
	Message any // sent before the close; nil for none
}

func (v Verdict) Error() string { return v.Reason }

// Brief is the reason in a close frame, at most 123 bytes.
func (v Verdict) Brief() string {
	if len(v.Reason) <= 120 {
		return v.Reason
	}
	return strings.ToValidUTF8(v.Reason[:100], "") + "…"
}

// Typed is a message that has only a type.
type Typed struct {
	Type string `json:"type"`
}

// NotFound is the verdict for everything that cannot be found, for any reason.
func NotFound() Verdict {
	return Verdict{CloseNotFound, "session not found", Typed{"session_not_found"}}
}

// Gone is the verdict for a client that has left.
func Gone() Verdict { return Verdict{Reason: reasonClient} }

// Lost is the verdict for a connection that can no longer be read or written.
func Lost(err error) Verdict {
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return Verdict{Code: websocket.StatusMessageTooBig, Reason: "message is too long"}
	case isLost(err):
		return Gone()
	}
	return Verdict{Code: websocket.StatusProtocolError, Reason: "message breaks the protocol"}
}

func isLost(err error) bool {
	var failed net.Error
	return websocket.CloseStatus(err) != -1 || errors.As(err, &failed) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// verdictOf returns the verdict for an error. failed makes its message.
func verdictOf(err error, failed func(*belljar.Error) any) Verdict {
	var v Verdict
	if errors.As(err, &v) {
		return v
	}
	e := &belljar.Error{Code: belljar.CodeInternal, Message: "internal error"}
	switch code := belljar.CodeOf(err); {
	case code == belljar.CodeNotFound:
		return NotFound()
	case code == belljar.CodeInternal && isLost(err):
		return Lost(err)
	case code == belljar.CodeInternal:
		return Verdict{websocket.StatusInternalError, e.Message, failed(e)}
	}
	errors.As(err, &e)
	v = Verdict{websocket.StatusPolicyViolation, e.Message, failed(e)}
	if e.Code == belljar.CodeUnauthorized {
		v.Code = CloseUnauthorized
	}
	return v
}
