package mcp

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/char"
)

// headline returns in a line how a run ended.
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
		if about, _, ok := strings.Cut(warning, ": add "); ok && strings.HasPrefix(about, "network: ") { // with flags of the command line
			warning = about + ": only the operator or user of the session can allow it"
		}
		if !strings.HasPrefix(warning, "capture pattern ") { // the operator sets these patterns
			fmt.Fprintf(&b, "\nwarning: %s", warning)
		}
	}
	return b.String()
}

// unfinished returns the text about a run that has not ended: running, unless it waits for an operator's approval.
func unfinished(run belljar.Run, running string) string {
	if a := run.Approval; a != nil && a.State == belljar.ApprovalPending {
		return fmt.Sprintf("exec_id %s in sandbox_id %s has not started: it waits for an operator's approval (%s), until %s. Wait for it with sandbox_exec_wait.",
			run.ID, cmp.Or(run.SessionID, run.ID), strings.Join(a.Reasons, ", "), a.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return running
}

// advice returns what a model can do about how a run ended. The run's own hint may name flags of the command line.
func advice(run belljar.Run) string {
	switch run.ReasonCode {
	case belljar.ReasonApprovalExpired:
		return "no operator approved it: ask the user whether one can, before you send it again"
	case belljar.ReasonExecutionTimeout:
		return "give it more time with timeout_seconds (timeout_sec of sandbox.run), or make the work shorter"
	case belljar.ReasonNodeOutOfMemory:
		return "try it again later: the machine had no memory left, and this was not the program's own limit"
	}
	switch {
	case strings.Contains(run.Hint, "workspace_exec"):
		return "name its interpreter in the command: files in /workspace cannot be executed here"
	case strings.Contains(run.Hint, " (--"): // it names a field of the API
		return "make it need less; only the operator can give it more"
	}
	return run.Hint
}

// ended is how a run ended, for programs.
type ended struct {
	ExitCode   *int           `json:"exit_code,omitempty" about:"Exit status, once it has ended: 128+n if a signal ended it, 125 if it never started"`
	Signal     string         `json:"signal,omitempty" about:"The signal that ended it"`
	TimedOut   bool           `json:"timed_out,omitempty" about:"Whether it was ended by its timeout"`
	ReasonCode belljar.Reason `json:"reason_code,omitempty" about:"Why it did not simply complete"`
	Message    string         `json:"message,omitempty" about:"What happened, as text"`

	Failure *belljar.RunFailure `json:"failure,omitempty" about:"The exception, failed test or compiler message that its output ends with, with its stack from the failure outwards"`
}

func endOf(run belljar.Run) ended {
	if !run.Phase.Terminal() {
		return ended{}
	}
	return ended{new(run.ExitStatus()), run.Signal, run.Phase == belljar.PhaseTimedOut, run.ReasonCode, run.Message, run.Failure}
}

// output is what a run printed, for programs.
type output struct {
	Stdout          string `json:"stdout" about:"Its output there; if it is long, the beginning and the end"`
	StdoutEncoding  string `json:"stdout_encoding,omitempty" about:"base64 if the content is not text"`
	StdoutTruncated bool   `json:"stdout_truncated,omitempty" about:"Whether part of it is left out, or may be: what the run's log had no room for"`
	Stderr          string `json:"stderr" about:"Its output there; if it is long, the beginning and the end"`
	StderrEncoding  string `json:"stderr_encoding,omitempty" about:"base64 if the content is not text"`
	StderrTruncated bool   `json:"stderr_truncated,omitempty" about:"Whether part of it is left out, or may be: what the run's log had no room for"`
}

// excerpt is the part of a run's stdout or stderr that a result holds.
type excerpt struct {
	Text      string // for models: bytes that are not UTF-8 are written \xNN
	Data      string // for programs: text, or base64 if it is binary
	Truncated bool
	Bytes     int64 // that the log has
	Left      int64 // bytes that are left out
	Binary    bool
}

func (e excerpt) encoding() string {
	if e.Binary {
		return "base64"
	}
	return ""
}

// excerptOf cuts output that [belljar.Printed] collected to room bytes: half from the beginning, half from the end. omitted is the
// number of bytes already missing at offset at.
func excerptOf(text, encoding string, at, omitted int64, capped bool, room int) excerpt {
	raw := []byte(text)
	if encoding == "base64" {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			raw = decoded
		}
	}
	e := excerpt{Bytes: int64(len(raw)) + omitted, Truncated: capped || omitted > 0, Binary: encoding == "base64"}
	head, tail, gap := raw, []byte(nil), ""
	if len(raw) > room || omitted > 0 {
		half := room / 2
		split := half
		if omitted > 0 {
			split = int(at) // head and tail must not cross it
		}
		head = char.WholeEnd(raw[:min(half, split)])
		tail = char.WholeStart(raw[max(split, len(raw)-half):])
		e.Left = e.Bytes - int64(len(head)+len(tail))
		e.Truncated = true
	}
	if e.Left > 0 {
		gap = fmt.Sprintf("\n[… %d bytes left out here …]\n", e.Left)
	}
	e.Text = readable(head) + gap + readable(tail)
	if e.Binary {
		e.Data = base64.StdEncoding.EncodeToString(append(head[:len(head):len(head)], tail...))
	} else {
		e.Data = string(head) + gap + string(tail)
	}
	return e
}

// readable returns output with bytes that are not UTF-8, and NULs, written as \xNN.
func readable(raw []byte) string {
	if utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0 {
		return string(raw)
	}
	var b strings.Builder
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		if r == utf8.RuneError && n == 1 || r == 0 {
			fmt.Fprintf(&b, `\x%02x`, raw[0])
		} else {
			b.Write(raw[:n])
		}
		raw = raw[n:]
	}
	return b.String()
}

// section returns a stream as a part of a text; "" if it is empty.
func (e excerpt) section(name string) string {
	if e.Bytes == 0 {
		return ""
	}
	if e.Binary {
		name += ` (binary: bytes that are not text are written \xNN)`
	}
	return "\n" + name + ":\n" + strings.TrimSuffix(e.Text, "\n") + "\n"
}

// notes returns that a part of a stream is left out; nil if none is.
func (e excerpt) notes(name string) []string {
	if e.Left == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s is truncated (%d bytes were kept, %d of them are not shown)", name, e.Bytes, e.Left)}
}

// transcript returns output as text for a model: each change of the stream starts a new line, with the stream's name.
func transcript(frames []belljar.Frame) string {
	var b strings.Builder
	var stream belljar.FrameType
	lineEnds := true
	for _, f := range frames {
		if f.Type != stream {
			if !lineEnds {
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, "%s:\n", f.Type)
			stream = f.Type
		}
		text := readable(f.Output)
		b.WriteString(text)
		lineEnds = strings.HasSuffix(text, "\n")
	}
	if !lineEnds {
		b.WriteString("\n")
	}
	return b.String()
}

// report returns how a run ended and its output: as text for a model, and for programs. more describes how to read the rest; a
// warning of the run lists what was not kept. The stderr of a program that was not built is its compiler's output. out is nil if the end of
// the run cannot be recorded now.
func report(run belljar.Run, out *belljar.Output, room int, more string) (string, output) {
	if out == nil {
		return headline(run) + "\n", output{}
	}
	stdout := excerptOf(out.Stdout, out.StdoutEncoding, out.StdoutOmittedAt, out.StdoutOmittedBytes, out.StdoutTruncated, room)
	stderr := excerptOf(out.Stderr, out.StderrEncoding, out.StderrOmittedAt, out.StderrOmittedBytes, out.StderrTruncated, room)
	if b := run.Build; b != nil && run.ReasonCode == belljar.ReasonCompileFailed {
		stderr = excerptOf(b.Output, b.OutputEncoding, 0, 0, b.OutputTruncated, room)
	}
	text := headline(run) + "\n" + stdout.section("stdout") + stderr.section("stderr")
	if notes := append(stdout.notes("stdout"), stderr.notes("stderr")...); len(notes) > 0 {
		text += "\nnote: " + strings.Join(notes, "; ") + ". " + more + "\n"
	}
	return text, output{stdout.Data, stdout.encoding(), stdout.Truncated, stderr.Data, stderr.encoding(), stderr.Truncated}
}
