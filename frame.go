package belljar

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// FrameType says what a frame of a run's log carries (S0 "WebSocket Protocol Details").
type FrameType string

// The frame types of S0.
const (
	FrameStdout    FrameType = "stdout"
	FrameStderr    FrameType = "stderr"
	FrameEvent     FrameType = "event"
	FrameHeartbeat FrameType = "heartbeat"
	FrameTruncated FrameType = "truncated"
)

// The events a run's log carries.
const (
	EventPhase = "phase"
	EventStart = "start"
	EventEnd   = "end"
	EventError = "error"
)

// Notes to one reader of a log. They borrow the seq of the frame they stand before and are not in the log (DESIGN §12).
const (
	EventResume      = "resume"       // frames that were asked for are gone
	EventStdinClosed = "stdin_closed" // an interactive run takes no more input
)

// MaxFrameBytes is the most output one frame carries, so that its JSON stays within S0's 64 KB message even when the
// bytes have to travel as base64.
const MaxFrameBytes = 45 << 10

// Frame is one entry of a run's log. Seq counts from 1 within the run, without a gap. Marshalled, it is S0's final
// envelope: stdout and stderr carry encoding and data, utf8 when Output is valid UTF-8 and base64 otherwise.
type Frame struct {
	Seq    uint64
	Type   FrameType
	Output []byte         // stdout, stderr
	Event  string         // event
	Data   map[string]any // event
	Reason string         // truncated
	Time   time.Time      // heartbeat
}

type frameJSON struct {
	Type     FrameType       `json:"type"`
	Encoding string          `json:"encoding,omitempty"`
	Event    string          `json:"event,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	TS       *time.Time      `json:"ts,omitempty"`
	Seq      uint64          `json:"seq"`
}

// MarshalJSON writes S0's envelope.
func (f Frame) MarshalJSON() ([]byte, error) {
	out := frameJSON{Type: f.Type, Event: f.Event, Reason: f.Reason, Seq: f.Seq}
	var data any
	switch f.Type {
	case FrameStdout, FrameStderr:
		out.Encoding, out.Data = encodeOutput(f.Output)
	case FrameEvent:
		data = f.Data
		if f.Data == nil {
			data = struct{}{}
		}
	case FrameHeartbeat:
		t := f.Time.UTC()
		out.TS = &t
	}
	if data != nil {
		raw, err := json.Marshal(data)
		if err != nil {
			return nil, err
		}
		out.Data = raw
	}
	return json.Marshal(out)
}

// maxTextBytes is the longest JSON string that output travels as: what [MaxFrameBytes] take as base64.
const maxTextBytes = MaxFrameBytes/3*4 + 2

// encodeOutput returns output as a JSON string and its encoding: text as it is, unless JSON's escapes would make a short
// text a long message, and anything else as base64.
func encodeOutput(b []byte) (encoding string, data json.RawMessage) {
	if utf8.Valid(b) {
		text, err := json.Marshal(string(b))
		if err == nil && len(text) <= maxTextBytes {
			return "utf8", text
		}
	}
	return "base64", fmt.Appendf(nil, "%q", base64.StdEncoding.EncodeToString(b))
}

// UnmarshalJSON reads S0's envelope.
func (f *Frame) UnmarshalJSON(raw []byte) error {
	var in frameJSON
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	*f = Frame{Seq: in.Seq, Type: in.Type, Event: in.Event, Reason: in.Reason}
	if in.TS != nil {
		f.Time = *in.TS
	}
	switch in.Type {
	case FrameStdout, FrameStderr:
		var text string
		if err := json.Unmarshal(in.Data, &text); err != nil {
			return fmt.Errorf("frame %d data: %w", in.Seq, err)
		}
		switch in.Encoding {
		case "utf8":
			f.Output = []byte(text)
		case "base64":
			decoded, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return fmt.Errorf("frame %d data: %w", in.Seq, err)
			}
			f.Output = decoded
		default:
			return fmt.Errorf("frame %d: unknown encoding %q", in.Seq, in.Encoding)
		}
	case FrameEvent:
		if len(in.Data) > 0 {
			return json.Unmarshal(in.Data, &f.Data)
		}
	}
	return nil
}
