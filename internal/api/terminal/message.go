package terminal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// maxMessage limits a client's message, in bytes: a pasted megabyte as base64.
const maxMessage = 2 << 20

// input is a client's message.
type input struct {
	Type     string `json:"type"`
	Data     string `json:"data"`
	Encoding string `json:"encoding"`
	Cols     int    `json:"cols"`
	Rows     int    `json:"rows"`

	bytes []byte // Data, decoded
}

// The types of a client's messages.
const (
	typeInput  = "input"
	typeResize = "resize"
	typePing   = "ping"
)

// decode decodes a client's text message. It ignores unknown fields, since clients of the workspace API may send their
// own. The error is a [verdict].
func decode(raw []byte) (input, error) {
	if !utf8.Valid(raw) {
		return input{}, broken(websocket.StatusInvalidFramePayloadData, "message is not utf-8")
	}
	if api.LoneSurrogate(raw) {
		return input{}, broken(websocket.StatusInvalidFramePayloadData, "message has half a surrogate pair")
	}
	var in input
	dec := json.NewDecoder(bytes.NewReader(raw))
	if err := dec.Decode(&in); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return input{}, broken(websocket.StatusPolicyViolation, "%s is not a %s", wrong.Field, wrong.Type)
		}
		return input{}, broken(websocket.StatusInvalidFramePayloadData, "message is not a json object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return input{}, broken(websocket.StatusInvalidFramePayloadData, "message is more than one json object")
	}
	switch in.Type {
	case typeInput:
	case typeResize, typePing:
		return in, nil
	default:
		return input{}, broken(websocket.StatusPolicyViolation, "message must be input, resize or ping")
	}
	switch in.Encoding {
	case "", "utf8", "utf-8":
		in.bytes = []byte(in.Data)
	case "base64":
		var err error
		if in.bytes, err = base64.StdEncoding.DecodeString(in.Data); err != nil {
			return input{}, broken(websocket.StatusInvalidFramePayloadData, "data is not base64")
		}
	default:
		return input{}, broken(websocket.StatusPolicyViolation, "encoding is neither utf8 nor base64")
	}
	return in, nil
}

// verdict is why a connection ends: an optional message, a close code and its reason.
type verdict struct {
	code    websocket.StatusCode // 0 if the connection is lost
	reason  string
	message any // nil for none
}

// Error makes a verdict an error.
func (v verdict) Error() string { return v.reason }

// Close codes of this door's own.
const (
	closeUnauthorized websocket.StatusCode = 4001
	closeNotFound     websocket.StatusCode = 4004
	closeTimeout      websocket.StatusCode = 4008
	closeOverflow     websocket.StatusCode = 4009
	closeReplaced     websocket.StatusCode = 4010
)

// broken is the verdict on an invalid message.
func broken(code websocket.StatusCode, format string, args ...any) verdict {
	text := fmt.Sprintf(format, args...)
	return verdict{code, text, failed(belljar.CodeInvalidRequest, text)}
}

// notFound is the verdict for every terminal that cannot be found, whatever the reason.
func notFound() verdict {
	return verdict{closeNotFound, "session not found", struct {
		Type string `json:"type"`
	}{"session_not_found"}}
}

// refused is the verdict for a failed request.
func refused(err error) verdict {
	code := belljar.CodeOf(err)
	switch code {
	case belljar.CodeNotFound:
		return notFound()
	case belljar.CodeInternal:
		return verdict{websocket.StatusInternalError, "internal error", failed(code, "internal error")}
	}
	var e *belljar.Error
	errors.As(err, &e)
	message := failed(code, e.Message)
	message.Details, message.Hint = e.Details, e.Hint
	v := verdict{websocket.StatusPolicyViolation, e.Message, message}
	switch code {
	case belljar.CodeUnauthorized:
		v.code = closeUnauthorized
	case belljar.CodeRuntimeUnavailable:
		v.code = websocket.StatusTryAgainLater
	}
	return v
}

// failure is an error message.
type failure struct {
	Type    string         `json:"type"`
	Code    belljar.Code   `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
	Hint    string         `json:"hint,omitempty"`
}

func failed(code belljar.Code, message string) failure {
	return failure{Type: "error", Code: code, Message: message}
}

// greeting is the session message: the terminal, and the token to reattach.
type greeting struct {
	Type      string           `json:"type"` // session
	Token     string           `json:"session_id"`
	Terminal  string           `json:"terminal_id"`
	Resumed   bool             `json:"resumed"`
	ExpiresAt time.Time        `json:"expires_at"`
	State     belljar.Terminal `json:"terminal"`
}

// text is a history or output message.
type text struct {
	Type     string `json:"type"`
	Data     string `json:"data"`
	Encoding string `json:"encoding,omitempty"`
}

// exit is the exit message.
type exit struct {
	Type string `json:"type"`
	Code int    `json:"exit_code"`
}

// encode returns a message as JSON, without HTML escapes.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
