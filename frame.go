package belljar

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// FrameType is the type of a frame in a run's log (docs/compatibility.md#frames).
type FrameType string

// The frame types.
const (
	FrameStdout    FrameType = "stdout"
	FrameStderr    FrameType = "stderr"
	FrameEvent     FrameType = "event"
	FrameHeartbeat FrameType = "heartbeat"
	FrameTruncated FrameType = "truncated"
	// FrameResult is a [Result] of code in a context, as a line of JSON, or a part of the line. The last part ends with a newline.
	FrameResult FrameType = "result"
)

// The events of a run's log.
const (
	EventPhase = "phase"
	EventStart = "start"
	EventEnd   = "end"
	EventError = "error"
	// EventEgress is a host that was reached or denied. It is logged once for each host and reason.
	EventEgress = "egress"
	// EventGit is the clone of a run's repository: state is cloning, with url and ref, then cloned, with commit, files and bytes.
	EventGit = "git"
	// EventApproval reports that the run waits for an approval, or the decision. Its data has the approval's id, state, reasons and
	// more.
	EventApproval = "approval"
	// EventPackages is a line of output from the installation of packages: tool and text.
	EventPackages = "packages"
)

// Notes for one reader of a log. Each has the seq of another frame and is not in the log, so a reader that drops duplicate seqs must
// exempt them.
const (
	EventResume      = "resume"       // requested frames are missing; has the seq of the next frame
	EventStdinClosed = "stdin_closed" // the input of an interactive run was closed; has the seq of the frame before
)

// MaxFrameBytes is the most output of one frame. Its JSON then fits into a message of 64 KB even if the output is encoded as base64.
const MaxFrameBytes = 45 << 10

// Frame is one entry of a run's log. Seq counts from 1 within the run, without a gap. In JSON it is the fixed envelope: stdout and
// stderr have encoding and data, utf8 if Output is valid UTF-8, else base64.
type Frame struct {
	Seq    uint64
	Type   FrameType
	Output []byte         // stdout, stderr, result
	Step   string         // of stderr: [StepBuild], or "" for the program's own output. For an event, Data has the step
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

// MarshalJSON writes the envelope. [Frame.AppendJSON] does the same faster.
func (f Frame) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil) }

// AppendJSON appends the envelope, of at most 64 KB if Output has at most [MaxFrameBytes]. It fails only if Data has no form in JSON.
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

// maxTextBytes is the longest JSON string of output: the base64 of [MaxFrameBytes].
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
