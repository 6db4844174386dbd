package mcp

import (
	"fmt"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

// headline says in a line how a run ended.
func headline(run belljar.Run) string {
	var b strings.Builder
	switch {
	case run.Phase == belljar.PhaseTimedOut:
		b.WriteString("timed out")
	case run.ExitCode != nil:
		fmt.Fprintf(&b, "exit code %d", *run.ExitCode)
	default:
		b.WriteString(string(run.Phase))
	}
	if run.Signal != "" {
		fmt.Fprintf(&b, " (%s)", run.Signal)
	}
	if ms, ok := run.Took(); ok {
		fmt.Fprintf(&b, " after %v", time.Duration(ms)*time.Millisecond)
	}
	if run.ReasonCode != "" && run.ReasonCode != belljar.ReasonNonZeroExit {
		fmt.Fprintf(&b, ": %s", run.ReasonCode)
		if run.Message != "" && run.Message != string(run.ReasonCode) {
			fmt.Fprintf(&b, " (%s)", run.Message)
		}
	}
	if hint := advice(run); hint != "" {
		fmt.Fprintf(&b, "\nhint: %s", hint)
	}
	for _, warning := range run.Warnings {
		// What is captured is the operator's business.
		if !strings.HasPrefix(warning, "capture pattern ") {
			fmt.Fprintf(&b, "\nwarning: %s", warning)
		}
	}
	return b.String()
}

// advice is what to do about how a run ended, in words of the tools: those on record name flags of the command line.
func advice(run belljar.Run) string {
	switch run.ReasonCode {
	case belljar.ReasonExecutionTimeout:
		return "give it more time with timeout_seconds (timeout_sec of sandbox.run), or make the work shorter"
	case belljar.ReasonCPUTimeExceeded:
		return "make it compute less; only the operator can give it more CPU time"
	case belljar.ReasonOOMKilled:
		return "make it use less memory; only the operator can give it more"
	case belljar.ReasonNodeOutOfMemory:
		return "try it again later: the machine had no memory left, and this was not the program's own limit"
	case belljar.ReasonPidsLimit:
		return "make it start fewer processes; only the operator can allow more"
	}
	hint, _, _ := strings.Cut(run.Hint, " (--")
	return hint
}

// ended is what is known of a run that has ended, for programs.
type ended struct {
	ExitCode   *int           `json:"exit_code,omitempty" about:"Once it has ended: 128+n if a signal ended it, 125 if it never began"`
	Signal     string         `json:"signal,omitempty" about:"The signal that ended it"`
	TimedOut   bool           `json:"timed_out,omitempty" about:"Whether its time was over"`
	ReasonCode belljar.Reason `json:"reason_code,omitempty" about:"Why it did not simply complete"`
	Message    string         `json:"message,omitempty" about:"What happened, for people"`
}

func endOf(run belljar.Run) ended {
	if !run.Phase.Terminal() {
		return ended{}
	}
	code := run.ExitStatus()
	return ended{&code, run.Signal, run.Phase == belljar.PhaseTimedOut, run.ReasonCode, run.Message}
}

// output is what a run printed, for programs.
type output struct {
	Stdout          string `json:"stdout" about:"What it printed there; if that was much, its beginning and its end"`
	StdoutEncoding  string `json:"stdout_encoding,omitempty" about:"base64 if it is not text"`
	StdoutTruncated bool   `json:"stdout_truncated,omitempty" about:"Whether there was more"`
	Stderr          string `json:"stderr" about:"What it printed there; if that was much, its beginning and its end"`
	StderrEncoding  string `json:"stderr_encoding,omitempty" about:"base64 if it is not text"`
	StderrTruncated bool   `json:"stderr_truncated,omitempty" about:"Whether there was more"`
}

func outputOf(stdout, stderr printed) output {
	o := output{Stdout: stdout.Data, StdoutTruncated: stdout.Truncated, Stderr: stderr.Data, StderrTruncated: stderr.Truncated}
	if stdout.Binary {
		o.StdoutEncoding = stdout.Encoding
	}
	if stderr.Binary {
		o.StderrEncoding = stderr.Encoding
	}
	return o
}
