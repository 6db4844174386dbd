package belljar

import (
	"context"
	"encoding/base64"
	"errors"
	"iter"
	"time"
	"unicode/utf8"
)

// inlineBytes is how much of each stream [Collect] keeps: half from the beginning, half from the end.
const inlineBytes = 1 << 20

// inlineResults is how many bytes of results [Printed] returns.
const inlineResults = 4 << 20

// Output is the complete output of a run, for a single response. A stream longer than [inlineBytes] has lost its middle:
// OmittedBytes bytes at offset OmittedAt, both counted in the original stream.
type Output struct {
	Stdout             string `json:"stdout"`
	StdoutEncoding     string `json:"stdout_encoding"` // utf8 | base64
	StdoutTruncated    bool   `json:"stdout_truncated"`
	StdoutOmittedAt    int64  `json:"stdout_omitted_at,omitempty"`
	StdoutOmittedBytes int64  `json:"stdout_omitted_bytes,omitempty"`
	Stderr             string `json:"stderr"`
	StderrEncoding     string `json:"stderr_encoding"`
	StderrTruncated    bool   `json:"stderr_truncated"`
	StderrOmittedAt    int64  `json:"stderr_omitted_at,omitempty"`
	StderrOmittedBytes int64  `json:"stderr_omitted_bytes,omitempty"`
	// Results are those of code in a context, of at most [inlineResults] together. If there are more, they are left out and the
	// output is truncated.
	Results          []Result `json:"results,omitempty"`
	ResultsTruncated bool     `json:"results_truncated,omitempty"`
}

// finisher is implemented by an engine that starts a run and waits for its end in one step. Such an engine may record a run that
// ends within the wait only then, because no client knows its id earlier.
type finisher interface {
	Finish(ctx context.Context, req RunRequest, wait time.Duration) (run Run, out *Output, err error)
}

// Finish starts a run and waits for its end, for at most wait. If the wait ends first, out is nil and run is in its current
// state. When ctx ends, the run continues. run then has its id, so that callers can cancel it.
func Finish(ctx context.Context, runs Runs, req RunRequest, wait time.Duration) (run Run, out *Output, err error) {
	if f, ok := runs.(finisher); ok && wait > 0 {
		return f.Finish(ctx, req, wait)
	}
	if run, err = runs.Start(ctx, req); err != nil || wait <= 0 {
		return run, nil, err
	}
	return await(ctx, runs, run, wait)
}

// await waits for the end of a started run, as [Finish] does. Details of the start are kept.
func await(ctx context.Context, runs Runs, started Run, wait time.Duration) (run Run, out *Output, err error) {
	waiting, stop := context.WithTimeout(ctx, wait)
	defer stop()
	run, all, err := Collect(waiting, runs, started.ID)
	switch {
	case err == nil:
		out = &all
	case ctx.Err() == nil && errors.Is(waiting.Err(), context.DeadlineExceeded):
		run, err = runs.Get(ctx, started.ID)
	}
	if err != nil {
		run = started
	}
	run.Details = started.Details
	return run, out, err
}

// Collect waits until a run has ended and returns it with its output. It returns early with ctx's error.
func Collect(ctx context.Context, runs Runs, id string) (Run, Output, error) {
	out, err := Printed(runs.Frames(ctx, id, 1))
	if err != nil {
		return Run{}, Output{}, err
	}
	run, err := runs.Get(ctx, id)
	return run, out, err
}

// Printed reads a log to its end and returns the run's output. A log that reached its cap marks both streams truncated, since it
// does not record which one lost output.
func Printed(log iter.Seq2[Frame, error]) (out Output, err error) {
	var stdout, stderr excerpt
	var results ResultReader
	shown, capped := 0, false
	for f, err := range log {
		if err != nil {
			return Output{}, err
		}
		switch f.Type {
		case FrameStdout:
			stdout.add(f.Output)
		case FrameStderr:
			if f.Step == "" { // a compiler's output belongs to the build
				stderr.add(f.Output)
			}
		case FrameResult:
			shown += len(f.Output)
			for _, r := range results.Add(f) {
				if shown > inlineResults {
					out.ResultsTruncated = true
					continue
				}
				out.Results = append(out.Results, r)
			}
		case FrameTruncated:
			capped = true
		}
	}
	out.Stdout, out.StdoutEncoding, out.StdoutOmittedAt, out.StdoutOmittedBytes = stdout.text(capped)
	out.Stderr, out.StderrEncoding, out.StderrOmittedAt, out.StderrOmittedBytes = stderr.text(capped)
	out.StdoutTruncated = capped || out.StdoutOmittedBytes > 0
	out.StderrTruncated = capped || out.StderrOmittedBytes > 0
	out.ResultsTruncated = out.ResultsTruncated || capped && shown > 0
	return out, nil
}

// excerpt keeps the beginning and the end of a stream.
type excerpt struct {
	head, tail []byte // tail is a ring once it is full
	next       int    // position of the ring's oldest byte
	total      int64
}

const half = inlineBytes / 2

func (e *excerpt) add(b []byte) {
	e.total += int64(len(b))
	n := min(len(b), half-len(e.head))
	e.head = append(e.head, b[:n]...)
	b = b[n:]
	if len(b) > half {
		b = b[len(b)-half:]
	}
	n = min(len(b), half-len(e.tail))
	e.tail = append(e.tail, b[:n]...)
	for b = b[n:]; len(b) > 0; b = b[n:] {
		n = copy(e.tail[e.next:], b)
		e.next = (e.next + n) % half
	}
}

// text returns the kept bytes: as they are if they are UTF-8, else as base64. Characters that the gap splits become part of the
// gap. It leaves out a character that the log's cap splits.
func (e *excerpt) text(capped bool) (kept, encoding string, at, omitted int64) {
	head := e.head
	tail := append(e.tail[e.next:len(e.tail):len(e.tail)], e.tail[:e.next]...)
	if e.total > inlineBytes {
		head, tail = wholeEnd(head), wholeStart(tail)
	}
	at, omitted = int64(len(head)), e.total-int64(len(head)+len(tail))
	if omitted == 0 {
		at = 0
	}
	whole := append(head[:len(head):len(head)], tail...)
	if end := wholeEnd(whole); capped && utf8.Valid(end) {
		whole = end
	}
	if utf8.Valid(whole) {
		return string(whole), "utf8", at, omitted
	}
	return base64.StdEncoding.EncodeToString(whole), "base64", at, omitted
}

// wholeEnd removes an incomplete character at the end of b.
func wholeEnd(b []byte) []byte {
	i := len(b) - 1
	for i > 0 && len(b)-i < utf8.UTFMax && !utf8.RuneStart(b[i]) {
		i--
	}
	if i >= 0 && !utf8.FullRune(b[i:]) {
		return b[:i]
	}
	return b
}

// wholeStart removes an incomplete character at the start of b.
func wholeStart(b []byte) []byte {
	for i := 0; i < len(b) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
