package rest

import (
	"cmp"
	"encoding/base64"
	"time"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Limits of one response with output of an exec.
const (
	defaultChunks = 100
	maxChunkBytes = 1 << 20 // of output: no chunk is added once the limit is reached
)

type readExecParams struct {
	ExecPath
	SinceSeq    uint64  `query:"since_seq" doc:"The last seq that the client has: next_seq of the previous answer"`
	MaxChunks   int     `query:"max_chunks" minimum:"1" maximum:"1000" doc:"Most chunks in the answer; default 100"`
	WaitSeconds float64 `query:"wait_seconds" minimum:"0" maximum:"600" doc:"How long to wait for output after since_seq, or for the end, in seconds; default 0"`
}

// ExecOutput is the output of an exec after a seq (docs/compatibility.md#tools).
type ExecOutput struct {
	Chunks []Chunk `json:"chunks" doc:"The output, in order"`
	Done   bool    `json:"done" doc:"Whether it has ended and nothing follows these chunks"`
	// NextSeq also counts frames without output: heartbeats, the end.
	NextSeq   uint64 `json:"next_seq" doc:"The since_seq of the next request"`
	Truncated bool   `json:"truncated,omitempty" doc:"Whether output is missing after since_seq: the log was cut at its cap, or removed"`
	ExecEnd
}

// Chunk is a piece of output.
type Chunk struct {
	Seq      uint64 `json:"seq" doc:"Its position; seqs increase, with gaps"`
	Stream   string `json:"stream" enum:"stdout,stderr" doc:"The stream that it was written to"`
	Text     string `json:"text" doc:"The output"`
	Encoding string `json:"encoding" enum:"utf8,base64" doc:"Encoding of text"`
}

func chunkOf(f belljar.Frame) Chunk {
	c := Chunk{Seq: f.Seq, Stream: string(f.Type), Text: string(f.Output), Encoding: "utf8"}
	if !utf8.Valid(f.Output) {
		c.Text, c.Encoding = base64.StdEncoding.EncodeToString(f.Output), "base64"
	}
	return c
}

func (d *Door) readExec(c *call, p *readExecParams, _ *none) (ExecOutput, error) {
	run, err := p.find(c)
	if err != nil {
		return ExecOutput{}, err
	}
	wait := min(time.Duration(p.WaitSeconds*float64(time.Second)), d.opts.MaxWait)
	part, err := api.ReadOutput(c, c.Runs(), run, api.OutputQuery{
		Since: p.SinceSeq, Frames: cmp.Or(p.MaxChunks, defaultChunks), Bytes: maxChunkBytes, Wait: wait,
	})
	if err != nil {
		return ExecOutput{}, err
	}
	out := ExecOutput{Chunks: []Chunk{}, Done: part.Done, NextSeq: part.Next, Truncated: part.Truncated}
	for _, f := range part.Frames {
		out.Chunks = append(out.Chunks, chunkOf(f))
	}
	if part.Done {
		out.ExecEnd = endOf(part.Run)
	}
	return out, nil
}
