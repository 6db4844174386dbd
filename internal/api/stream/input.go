package stream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/belljar/belljar/internal/api"
)

// maxInput is the longest message that a client may send. It is above every limit on input, so that such a limit answers first.
const maxInput = 512 << 10

// input is a message of the client of an interactive run.
type input struct {
	data []byte
	last bool // stdin_close
}

// closeReason is why a connection ends.
type closeReason struct {
	code   websocket.StatusCode
	reason string
	cause  string // for the metrics
}

// Error makes a closeReason an error of [decodeInput].
func (v closeReason) Error() string { return v.reason }

func broken(code websocket.StatusCode, format string, args ...any) error {
	return closeReason{code, fmt.Sprintf(format, args...), causeProtocol}
}

// decodeInput decodes a client's message. The error is a closeReason.
func decodeInput(raw []byte) (input, error) {
	if !utf8.Valid(raw) {
		return input{}, broken(websocket.StatusInvalidFramePayloadData, "message is not utf-8")
	}
	fields, err := decodeFields(raw)
	if err != nil {
		return input{}, err
	}
	text, hasData := fields["data"]
	encoding, hasEncoding := fields["encoding"]
	switch kind := fields["type"]; {
	case kind == "stdin_close" && !hasData && !hasEncoding:
		return input{last: true}, nil
	case kind != "stdin":
		return input{}, broken(websocket.StatusPolicyViolation, "message must be stdin or stdin_close")
	case !hasData:
		return input{}, broken(websocket.StatusPolicyViolation, "stdin message has no data")
	}
	switch encoding {
	case "utf8":
		return input{data: []byte(text)}, nil
	case "base64":
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return input{}, broken(websocket.StatusInvalidFramePayloadData, "stdin data is not base64")
		}
		return input{data: data}, nil
	}
	return input{}, broken(websocket.StatusPolicyViolation, "stdin encoding is neither utf8 nor base64")
}

// decodeFields decodes one JSON object of strings. Names are exact and unique. It refuses unknown fields and other types,
// because the message is meant for a program.
func decodeFields(raw []byte) (map[string]string, error) {
	notJSON := broken(websocket.StatusInvalidFramePayloadData, "message is not a json object")
	if api.LoneSurrogate(raw) {
		return nil, broken(websocket.StatusInvalidFramePayloadData, "message has half a surrogate pair")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, notJSON
	}
	fields := map[string]string{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, notJSON
		}
		name, _ := tok.(string)
		if name != "type" && name != "encoding" && name != "data" {
			return nil, broken(websocket.StatusPolicyViolation, "message has an unknown field %.20q", name)
		}
		if _, twice := fields[name]; twice {
			return nil, broken(websocket.StatusPolicyViolation, "message has %s twice", name)
		}
		if tok, err = dec.Token(); err != nil {
			return nil, notJSON
		}
		value, ok := tok.(string)
		if !ok {
			return nil, broken(websocket.StatusPolicyViolation, "%s is not a string", name)
		}
		fields[name] = value
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return nil, notJSON
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, notJSON
	}
	return fields, nil
}
