package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/belljar/belljar/internal/api"
)

// Bounds of what a body or a line holds, besides its bytes: decoded, a value takes up many times those that it was sent as.
const (
	mostValues = 100_000
	mostBatch  = 100 // messages
)

// message is what of a message the door looks at.
type message struct {
	ID     json.RawMessage `json:"id"` // "null" is not nil
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// messagesOf are the messages of a body; none if it is no JSON, which the SDK tells the client. The error is
// [belljar.CodeInvalidRequest].
func messagesOf(body []byte) ([]message, error) {
	if err := wellFormed(body); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		var one message
		if json.Unmarshal(body, &one) != nil {
			return nil, nil
		}
		return []message{one}, one.check()
	}
	var list []message
	if json.Unmarshal(body, &list) != nil {
		return nil, nil
	}
	if len(list) > mostBatch {
		return nil, refuse("body", "a batch has %d messages at most, this one has %d", mostBatch, len(list))
	}
	for _, m := range list {
		if err := m.check(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// check refuses a request whose answer could not carry its id.
func (m message) check() error {
	if m.Method == "" || m.ID == nil || answerable(m.ID) {
		return nil
	}
	return refuse("id", "id is %.40s, and no string or whole number below 2^53", m.ID)
}

// checkID is [message.check] of a message that has been decoded otherwise.
func checkID(raw json.RawMessage) error {
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	return m.check()
}

// answerable reports whether an answer can carry an id as it came.
func answerable(id json.RawMessage) bool {
	if len(id) > 0 && id[0] == '"' {
		return true
	}
	n, err := strconv.ParseFloat(string(id), 64)
	return err == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53
}

// wellFormed refuses what would be changed by decoding it, or would take up too much. It does not say whether it is JSON.
func wellFormed(raw []byte) error {
	switch {
	case !utf8.Valid(raw):
		return refuse("body", "the message is not UTF-8")
	case api.LoneSurrogate(raw):
		return refuse("body", "the message has half a surrogate pair, which is not a character")
	case values(raw) > mostValues:
		e := refuse("body", "a message has %d values at most", mostValues)
		e.Details["maximum"] = mostValues
		e.Hint = "send less at once, or as a file"
		return e
	}
	return nil
}

// keyOf is [requestKey] of an id as it came.
func keyOf(raw json.RawMessage) string {
	var id any
	if json.Unmarshal(raw, &id) != nil {
		return ""
	}
	return requestKey(id)
}

// values is about how many values JSON has: lists and objects, and what in them is parted by commas.
func values(raw []byte) int {
	n, text := 1, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case !text && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// integer is a number as a whole one, if it is: 5.0 and 5e0 are 5.
func integer(n json.Number) (json.Number, bool) {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return n, false
	}
	return json.Number(fmt.Sprintf("%.0f", f)), true
}
