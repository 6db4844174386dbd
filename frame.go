package belljar

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// FrameType says what a frame of a run's log carries (docs/compatibility.md#frames).
type FrameType string

// The frame types.
const (
	FrameStdout    FrameType = "stdout"
	FrameStderr    FrameType = "stderr"
	FrameEvent     FrameType = "event"
	FrameHeartbeat FrameType = "heartbeat"
	FrameTruncated FrameType = "truncated"
	// FrameResult is a [Result] of code in a context, as a line of JSON, or a piece of it: the last piece ends with a newline.
	FrameResult FrameType = "result"
)

// The events a run's log carries.
const (
	EventPhase = "phase"
	EventStart = "start"
	EventEnd   = "end"
	EventError = "error"
	// EventEgress is a host that was reached, or denied; once a host and reason.
	EventEgress = "egress"
	// EventGit is the clone of a run's repository: state is cloning, with url and ref, then cloned, with commit, files and bytes.
	EventGit = "git"
	// EventApproval is that the run waits for a person, or what was decided; its data has the approval's id, state, reasons and more.
	EventApproval = "approval"
	// EventPackages is a line about the installation of packages: tool and text.
	EventPackages = "packages"
)

// Notes to one reader of a log. They borrow a seq and are not in the log, so that a reader who drops frames seen
// before must not count them.
const (
	EventResume      = "resume"       // frames that were asked for are gone; has the seq of the frame that follows
	EventStdinClosed = "stdin_closed" // an interactive run takes no more input; has the seq of the last frame before
)

// MaxFrameBytes is the most output one frame carries, so that its JSON stays within a message of 64 KB even when the
// bytes have to travel as base64.
const MaxFrameBytes = 45 << 10

// Frame is one entry of a run's log. Seq counts from 1 within the run, without a gap. Marshalled, it is the fixed
// envelope: stdout and stderr carry encoding and data, utf8 when Output is valid UTF-8 and base64 otherwise.
type Frame struct {
	Seq    uint64
	Type   FrameType
	Output []byte         // stdout, stderr, result
	Step   string         // of stderr: [StepBuild], or "" for the program's own. That of an event is in its Data
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
	Step     string          `json:"step,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	TS       *time.Time      `json:"ts,omitempty"`
	Seq      uint64          `json:"seq"`
}

// MarshalJSON writes the envelope. [Frame.AppendJSON] is the faster way to the same.
func (f Frame) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil) }

// AppendJSON appends the envelope, which has at most 64 KB if Output has at most [MaxFrameBytes]. It fails for Data that
// JSON cannot hold only.
func (f *Frame) AppendJSON(dst []byte) ([]byte, error) {
	switch f.Type {
	case FrameStdout, FrameStderr, FrameResult:
		dst = append(dst, `{"type":"`...)
		dst = append(dst, f.Type...)
		dst = append(dst, `",`...)
		dst = appendOutput(dst, f.Output)
		if f.Step != "" {
			dst = append(dst, `,"step":`...)
			dst = strconv.AppendQuote(dst, f.Step)
		}
		dst = append(dst, `,"seq":`...)
		dst = strconv.AppendUint(dst, f.Seq, 10)
		return append(dst, '}'), nil
	}
	out := frameJSON{Type: f.Type, Event: f.Event, Reason: f.Reason, Seq: f.Seq}
	switch f.Type {
	case FrameEvent:
		out.Data = json.RawMessage("{}")
		if f.Data != nil {
			raw, err := json.Marshal(f.Data)
			if err != nil {
				return dst, err
			}
			out.Data = raw
		}
	case FrameHeartbeat:
		out.TS = new(f.Time.UTC())
	}
	raw, err := json.Marshal(out)
	return append(dst, raw...), err
}

// maxTextBytes is the longest JSON string that output travels as: what [MaxFrameBytes] take as base64.
const maxTextBytes = MaxFrameBytes/3*4 + 2

// UnmarshalJSON reads the envelope.
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
	case FrameStdout, FrameStderr, FrameResult:
		f.Step = in.Step
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
