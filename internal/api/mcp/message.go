package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/char"
)

// maxBatch is how many messages a body or a line may have.
const maxBatch = 100

// message is the part of a message that the transports read.
type message struct {
	ID     json.RawMessage // "null" is not nil
	Method string
	Params json.RawMessage
}

// UnmarshalJSON reads the fields that the SDK reads: their names are case-sensitive.
func (m *message) UnmarshalJSON(raw []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	m.ID, m.Params = fields["id"], fields["params"]
	if method, ok := fields["method"]; ok {
		return json.Unmarshal(method, &m.Method)
	}
	return nil
}

// messagesOf returns the messages of a body; nil if the body is not JSON. The error is [belljar.CodeInvalidRequest].
func messagesOf(body []byte) ([]message, error) {
	if err := checkText(body); err != nil {
		return nil, err
	}
	list := make([]message, 1)
	var to any = &list[0]
	if isBatch(body) {
		to = &list
	}
	if json.Unmarshal(body, to) != nil {
		return nil, nil
	}
	if len(list) > maxBatch {
		return nil, api.Refuse("body", "a batch has %d messages at most, this one has %d", maxBatch, len(list))
	}
	for _, m := range list {
		if err := m.check(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func isBatch(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) }

// streams reports whether the answer may come late. That of initialize has a header of its own.
func (m message) streams() bool { return m.ID != nil && m.Method != "" && m.Method != "initialize" }

// ends reports whether a server that stops can answer: a subscription lasts as long as its connection.
func (m message) ends() bool { return m.streams() && m.Method != "subscriptions/listen" }

// maxKept and mostKept are how many bytes and values of parameters a message may have that the SDK keeps as long as its session.
const maxKept, mostKept = 64 << 10, 1000

// check refuses parameters that are too large to be kept, and a request with an id that its answer could not carry unchanged.
func (m message) check() error {
	if (m.Method == "initialize" || m.Method == "notifications/initialized") && (len(m.Params) > maxKept || char.Values(m.Params) > mostKept) {
		return api.Refuse("params", "params of %s have %d bytes and %d values at most", m.Method, maxKept, mostKept)
	}
	if m.Method == "" || m.ID == nil || len(m.ID) > 0 && m.ID[0] == '"' {
		return nil
	}
	if _, ok := integer(json.Number(m.ID)); !ok {
		return api.Refuse("id", "id is %.40s, and no string or whole number below 2^53", m.ID)
	}
	return nil
}

// checkText refuses text that decoding would change, and text with too many values. It does not check that the text is JSON.
func checkText(raw []byte) error {
	switch {
	case !utf8.Valid(raw):
		return api.Refuse("body", "the message is not UTF-8")
	case api.LoneSurrogate(raw):
		return api.Refuse("body", "the message has half a surrogate pair, which is not a character")
	case char.Values(raw) > api.MostValues:
		e := api.Refuse("body", "a message has %d values at most", api.MostValues)
		e.Details["maximum"] = api.MostValues
		e.Hint = "send less at once, or as a file"
		return e
	}
	return nil
}

// requestKey returns a key for a request's id, of a fixed size. The ways to write a number have the same key; a string and a
// number never do.
func requestKey(id any) string {
	raw, _ := json.Marshal(id) // id comes from JSON
	var plain any
	_ = json.Unmarshal(raw, &plain)
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%#v", plain)))
}

// integer writes a whole number below 2^53 as an integer: 5.0 and 5e0 become 5.
func integer(n json.Number) (json.Number, bool) {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return n, false
	}
	return json.Number(fmt.Sprintf("%.0f", f)), true
}
