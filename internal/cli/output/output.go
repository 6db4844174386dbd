// Package output makes the JSON of a run that a command waited for.
package output

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
)

// Buffer collects output for --json.
type Buffer struct {
	stdout, stderr bytes.Buffer
	reader         belljar.ResultReader
	results        []belljar.Result
}

// Write adds a frame.
func (k *Buffer) Write(_ context.Context, f belljar.Frame) error {
	switch f.Type {
	case belljar.FrameStdout:
		k.stdout.Write(f.Output)
	case belljar.FrameStderr:
		if f.Step == "" { // the run's build holds the compiler's output
			k.stderr.Write(f.Output)
		}
	case belljar.FrameResult:
		k.results = append(k.results, k.reader.Add(f)...)
	}
	return nil
}

// document is the output of --json: the run as GET /runs/{id} returns it, its output and its artifacts.
type document struct {
	belljar.Run
	Stdout          string             `json:"stdout"`
	StdoutEncoding  string             `json:"stdout_encoding"` // utf8 or base64
	StdoutTruncated bool               `json:"stdout_truncated"`
	Stderr          string             `json:"stderr"`
	StderrEncoding  string             `json:"stderr_encoding"`
	StderrTruncated bool               `json:"stderr_truncated"`
	Artifacts       []belljar.Artifact `json:"artifacts"`
	Results         []belljar.Result   `json:"results,omitempty"` // of code in a context
	Error           *belljar.Error     `json:"error,omitempty"`   // artifacts could not be saved
	Failed          []*belljar.Error   `json:"failed,omitempty"`  // the error of each
}

// Print prints a run. failure is the error of saving its artifacts, nil for none.
func (k *Buffer) Print(w io.Writer, run belljar.Run, artifacts []belljar.Artifact, failure error) error {
	// The log's limit covers both streams together, so either may be truncated.
	out := document{Run: run, Artifacts: artifacts, StdoutTruncated: run.Truncated, StderrTruncated: run.Truncated, Results: k.results}
	out.Stdout, out.StdoutEncoding = encode(k.stdout.Bytes())
	out.Stderr, out.StderrEncoding = encode(k.stderr.Bytes())
	if out.Artifacts == nil {
		out.Artifacts = []belljar.Artifact{}
	}
	if failure != nil {
		out.Error = mistake.JSON(failure)
	}
	if some, is := errors.AsType[*mistake.Some](failure); is {
		out.Failed = some.JSON()
	}
	return show.JSON(w, out)
}

// encode returns bytes as text, or as base64 unless they are valid UTF-8.
func encode(raw []byte) (text, encoding string) {
	if utf8.Valid(raw) {
		return string(raw), "utf8"
	}
	return base64.StdEncoding.EncodeToString(raw), "base64"
}
