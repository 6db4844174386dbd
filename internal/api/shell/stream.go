package shell

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// chunk is what a command has printed, in an event of that name. Its id is the seq of the run's log: who loses the stream
// goes on with GET /runs/{run_id}/logs?since_seq=.
type chunk struct {
	Seq      uint64            `json:"seq"`
	Stream   belljar.FrameType `json:"stream"`   // stdout | stderr; all is stdout unless the streams are kept apart
	Encoding string            `json:"encoding"` // utf8 | base64
	Output   string            `json:"output"`
}

func chunkOf(f belljar.Frame) chunk {
	k := chunk{Seq: f.Seq, Stream: f.Type, Encoding: "utf8", Output: string(f.Output)}
	if !utf8.Valid(f.Output) {
		k.Encoding, k.Output = "base64", base64.StdEncoding.EncodeToString(f.Output)
	}
	return k
}

// sse writes server-sent events. Each is written at once, so that it arrives when it comes.
type sse struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// begin starts the answer.
func (c *call) begin() *sse {
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	c.w.WriteHeader(http.StatusOK)
	return &sse{w: c.w, control: http.NewResponseController(c.w), timeout: c.door.opts.WriteTimeout}
}

// event writes one event; seq 0 is none that a client could go on behind.
func (s *sse) event(seq uint64, name string, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	var head string
	if seq > 0 {
		head = "id: " + strconv.FormatUint(seq, 10) + "\n"
	}
	return s.write(fmt.Sprintf("%sevent: %s\ndata: %s\n\n", head, name, raw))
}

func (s *sse) write(text string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}

// follow tells what the command prints as it comes: events start, chunk, and at last done or error. The command goes on
// if its client goes away.
func (c *call) follow(in shellCommand) error {
	run, err := c.start(in)
	if err != nil {
		return err
	}
	out := c.begin()
	if err := out.event(0, "start", map[string]string{"run_id": run.ID}); err != nil {
		return nil // nobody listens
	}
	last := uint64(0)
	for f, err := range c.Runs().Frames(c.r.Context(), run.ID, 1) {
		if err != nil {
			return c.broken(out, err)
		}
		last = f.Seq
		switch f.Type {
		case belljar.FrameStdout, belljar.FrameStderr:
			err = out.event(f.Seq, "chunk", chunkOf(f))
		case belljar.FrameHeartbeat:
			err = out.write(": still here\n\n")
		}
		if err != nil {
			return nil
		}
	}
	replay := run.Details
	if run, err = c.Runs().Get(c.r.Context(), run.ID); err != nil {
		return c.broken(out, err)
	}
	result := resultOf(run)
	result.Details = replay
	_ = out.event(last, "done", result) // a client that is gone needs no answer
	return nil
}

// broken tells why a stream ends before its command.
func (c *call) broken(out *sse, err error) error {
	e, _ := api.Explain(c.r.Context(), err)
	_ = out.event(0, "error", map[string]any{"error": e})
	return nil
}
