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

// chunk is output of a command, in an event of that name. The event's id is the seq in the run's log: after a lost
// connection a client continues with GET /runs/{run_id}/logs?since_seq=.
type chunk struct {
	Seq      uint64            `json:"seq"`
	Stream   belljar.FrameType `json:"stream"`   // stdout | stderr; always stdout unless the streams are separate
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

// sse writes server-sent events and flushes each.
type sse struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// writeTimeout limits the write of one event.
const writeTimeout = 30 * time.Second

// begin starts the response.
func (c *call) begin() *sse {
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	c.w.WriteHeader(http.StatusOK)
	return &sse{w: c.w, control: http.NewResponseController(c.w)}
}

// event writes one event. With seq 0 it has no id.
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
	if err := s.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}

// follow streams a command: events start, chunk, and at last done or error. The command continues if the client
// disconnects.
func (c *call) follow(in shellCommand) error {
	run, err := c.start(in)
	if err != nil {
		return err
	}
	out := c.begin()
	if err := out.event(0, "start", map[string]string{"run_id": run.ID}); err != nil {
		return nil // the client is gone
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
	result := c.resultOf(run)
	result.Details = replay
	_ = out.event(last, "done", result) // fails only if the client is gone
	return nil
}

// broken sends the error that ends a stream before its command has ended.
func (c *call) broken(out *sse, err error) error {
	e, _ := api.Explain(c.r.Context(), err)
	_, body := api.Body("", e)
	_ = out.event(0, "error", body)
	return nil
}
