package rest

import (
	"context"
	"encoding/base64"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/belljar/belljar"
)

// Bounds of one answer to a request to read an exec.
const (
	defaultChunks = 100
	maxChunkBytes = 1 << 20 // of the text of all chunks; one more may begin below it
)

type readExecParams struct {
	ExecPath
	SinceSeq    uint64  `query:"since_seq" doc:"The last seq that the client has: the next_seq of the answer before"`
	MaxChunks   int     `query:"max_chunks" minimum:"1" maximum:"1000" doc:"Most chunks in the answer; 100 if it is not given"`
	WaitSeconds float64 `query:"wait_seconds" minimum:"0" maximum:"600" doc:"How long to wait for output, or the end, if there is none behind since_seq; 0 if it is not given"`
}

// ExecOutput is what an exec printed behind a seq (S2 SandboxExecReadOutput).
type ExecOutput struct {
	Chunks []Chunk `json:"chunks" doc:"The output, in order"`
	Done   bool    `json:"done" doc:"Whether it has ended and nothing follows these chunks"`
	// NextSeq counts what is no output, too: heartbeats, the end.
	NextSeq   uint64 `json:"next_seq" doc:"The since_seq to ask for next"`
	Truncated bool   `json:"truncated,omitempty" doc:"Whether output is missing behind since_seq: the log was cut at its cap, or is swept"`
	ExecEnd
}

// Chunk is a piece of output (S2 OutputChunk).
type Chunk struct {
	Seq      uint64 `json:"seq" doc:"Its place; seqs rise, with gaps"`
	Stream   string `json:"stream" enum:"stdout,stderr" doc:"Where it was printed"`
	Text     string `json:"text" doc:"What was printed"`
	Encoding string `json:"encoding" enum:"utf8,base64" doc:"Of text"`
}

func chunkOf(f belljar.Frame) Chunk {
	c := Chunk{Seq: f.Seq, Stream: string(f.Type), Text: string(f.Output), Encoding: "utf8"}
	if !utf8.Valid(f.Output) {
		c.Text, c.Encoding = base64.StdEncoding.EncodeToString(f.Output), "base64"
	}
	return c
}

// reading collects an answer from the frames of a log.
type reading struct {
	ExecOutput
	room, bytes int // chunks and bytes that are left
	until       uint64
}

// take adds a frame. It reports whether there is room for more.
func (r *reading) take(f belljar.Frame) bool {
	if f.Seq > r.NextSeq+1 {
		r.Truncated = true // swept
	}
	r.NextSeq = f.Seq
	switch f.Type {
	case belljar.FrameStdout, belljar.FrameStderr:
		c := chunkOf(f)
		r.Chunks = append(r.Chunks, c)
		r.room--
		r.bytes -= len(c.Text)
	case belljar.FrameTruncated:
		r.Truncated = true
	case belljar.FrameEvent:
		r.Done = r.Done || f.Event == belljar.EventEnd
	}
	return r.room > 0 && r.bytes > 0
}

func (d *Door) readExec(c *call, p *readExecParams, _ *none) (ExecOutput, error) {
	run, err := p.find(c)
	if err != nil {
		return ExecOutput{}, err
	}
	r := &reading{room: p.MaxChunks, bytes: maxChunkBytes, until: run.LastSeq}
	r.Chunks, r.NextSeq = []Chunk{}, p.SinceSeq
	if r.room == 0 {
		r.room = defaultChunks
	}
	switch {
	case run.Phase.Terminal() && p.SinceSeq >= run.LastSeq:
		r.Done = true
	case p.SinceSeq < run.LastSeq:
		err = r.read(c, c.Runs(), run.ID)
	}
	wait := min(time.Duration(p.WaitSeconds*float64(time.Second)), d.opts.MaxWait)
	if err == nil && wait > 0 && len(r.Chunks) == 0 && !r.Done {
		err = r.await(c, c.Runs(), run.ID, wait)
	}
	if err != nil {
		return ExecOutput{}, err
	}
	if r.Done {
		if !run.Phase.Terminal() {
			if run, err = c.Runs().Get(c, run.ID); err != nil {
				return ExecOutput{}, err
			}
		}
		r.ExecEnd = endOf(run)
	}
	return r.ExecOutput, nil
}

// read takes what there is, up to the last frame that was there when it was asked for.
func (r *reading) read(ctx context.Context, runs belljar.Runs, id string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for f, err := range runs.Frames(ctx, id, r.NextSeq+1) {
		if err != nil {
			return err
		}
		if !r.take(f) || f.Seq >= r.until {
			break
		}
	}
	return nil
}

// await waits, for a time, for the first output or the end, and takes what is there by then.
func (r *reading) await(ctx context.Context, runs belljar.Runs, id string, wait time.Duration) error {
	waiting, stop := context.WithTimeout(ctx, wait)
	defer stop()
	for f, err := range runs.Frames(waiting, id, r.NextSeq+1) {
		if err != nil {
			if ctx.Err() == nil && errors.Is(waiting.Err(), context.DeadlineExceeded) {
				return nil
			}
			return err
		}
		more := r.take(f)
		if len(r.Chunks) == 0 {
			continue
		}
		if !more || r.Done {
			return nil
		}
		break
	}
	if r.Done {
		return nil
	}
	now, err := runs.Get(ctx, id)
	if r.until = now.LastSeq; err != nil || r.until <= r.NextSeq {
		return err
	}
	return r.read(ctx, runs, id)
}
