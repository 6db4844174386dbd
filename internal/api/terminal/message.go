package terminal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/socket"
)

// maxMessage limits a client's message, in bytes: a pasted megabyte as base64.
const maxMessage = 2 << 20

// dialect has the messages of this door.
type dialect struct{}

var _ socket.Dialect = dialect{}

// Decode implements [socket.Dialect]. It ignores unknown fields, since clients of the workspace API may send their own. An invalid
// message ends the connection.
func (dialect) Decode(text bool, raw []byte) (socket.Input, error) {
	if !text {
		return socket.Input{Type: "input", Bytes: raw}, nil
	}
	if !utf8.Valid(raw) {
		return broken(websocket.StatusInvalidFramePayloadData, "message is not utf-8")
	}
	if api.LoneSurrogate(raw) {
		return broken(websocket.StatusInvalidFramePayloadData, "message has half a surrogate pair")
	}
	var in struct {
		Type     string `json:"type"`
		Data     string `json:"data"`
		Encoding string `json:"encoding"`
		Cols     int    `json:"cols"`
		Rows     int    `json:"rows"`
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if err := dec.Decode(&in); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return broken(websocket.StatusPolicyViolation, "%s is not a %s", wrong.Field, wrong.Type)
		}
		return broken(websocket.StatusInvalidFramePayloadData, "message is not a json object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return broken(websocket.StatusInvalidFramePayloadData, "message is more than one json object")
	}
	out := socket.Input{Type: in.Type, Cols: in.Cols, Rows: in.Rows}
	switch {
	case in.Type == "resize", in.Type == "ping":
	case in.Type != "input":
		return broken(websocket.StatusPolicyViolation, "message must be input, resize or ping")
	case in.Encoding == "base64":
		var err error
		if out.Bytes, err = base64.StdEncoding.DecodeString(in.Data); err != nil {
			return broken(websocket.StatusInvalidFramePayloadData, "data is not base64")
		}
	case slices.Contains([]string{"", "utf8", "utf-8"}, in.Encoding):
		out.Bytes = []byte(in.Data)
	default:
		return broken(websocket.StatusPolicyViolation, "encoding is neither utf8 nor base64")
	}
	return out, nil
}

// broken returns the verdict on an invalid message.
func broken(code websocket.StatusCode, format string, args ...any) (socket.Input, error) {
	e := &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
	return socket.Input{}, socket.Verdict{Code: code, Reason: e.Message, Message: dialect{}.Failed(e)}
}

// failure is an error message.
type failure struct {
	Type    string         `json:"type"`
	Code    belljar.Code   `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
	Hint    string         `json:"hint,omitempty"`
}

// Failed implements [socket.Dialect].
func (dialect) Failed(e *belljar.Error) any {
	return failure{"error", e.Code, e.Message, e.Details, e.Hint}
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

// Text implements [socket.Dialect]: text if b is UTF-8 and JSON escapes would not make it much longer, else base64.
func (dialect) Text(kind string, b []byte) any {
	if utf8.Valid(b) {
		escapes := 0
		for _, c := range b {
			if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
				escapes++
			}
		}
		if escapes <= len(b)/4+16 {
			return text{Type: kind, Data: string(b)}
		}
	}
	return text{Type: kind, Data: base64.StdEncoding.EncodeToString(b), Encoding: "base64"}
}

// exit is the exit message.
type exit struct {
	Type string `json:"type"`
	Code int    `json:"exit_code"`
}

// Exit implements [socket.Dialect].
func (dialect) Exit(code int) any { return exit{"exit", code} }
