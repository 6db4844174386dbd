package shell

import (
	"cmp"
	"math"
	"net/http"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// runHeader is the response header with a command's run id.
const runHeader = "Belljar-Run-Id"

// noExitCode is the exit code of a command that never started or was lost, as in the command line.
const noExitCode = 125

// command is the request body of exec.
type command struct {
	Cmd       string   `json:"cmd,omitempty"`
	TimeoutMS *float64 `json:"timeout_ms,omitempty"` // the default is the session's timeout
}

// shellCommand is the request body of the sandbox API's shell route.
type shellCommand struct {
	command
	Separate bool   `json:"separate,omitempty"` // stdout and stderr apart, on pipes
	Stdin    string `json:"stdin,omitempty"`    // the command's whole standard input
}

// Result is the result of a command: the API's five fields, and Belljar's extensions.
type Result struct {
	ExitCode   int     `json:"exit_code"`        // 124 after a timeout, 128+n after a signal, 125 if it never started
	Cwd        string  `json:"cwd"`              // of the shell, after the command
	Text       *string `json:"output,omitempty"` // nil for a command with separate streams
	Truncated  bool    `json:"truncated"`
	DurationMS int64   `json:"duration_ms"`

	RunID           string          `json:"run_id"`
	Shell           string          `json:"shell,omitempty"`           // kept | replaced
	Program         string          `json:"program,omitempty"`         // bash | sh
	OutputEncoding  string          `json:"output_encoding,omitempty"` // utf8 | base64
	*belljar.Output                 // of a command with separate streams
	TimedOut        bool            `json:"timed_out"`
	Signal          string          `json:"signal,omitempty"`
	ReasonCode      belljar.Reason  `json:"reason_code,omitempty"`
	Message         string          `json:"message,omitempty"`
	Hint            string          `json:"hint,omitempty"`
	Warnings        []string        `json:"warnings,omitempty"`
	Details         *belljar.Replay `json:"details,omitempty"`
}

// resultOf returns the result of a run that has ended, without its output.
func (c *call) resultOf(run belljar.Run) Result {
	out := Result{
		RunID: run.ID, ExitCode: noExitCode, Cwd: belljar.WorkspaceDir, TimedOut: run.Phase == belljar.PhaseTimedOut,
		Truncated: run.Truncated, Signal: run.Signal, ReasonCode: run.ReasonCode, Message: run.Message, Hint: api.HintIn(run, "timeout_ms"), Warnings: run.Warnings,
	}
	if run.ExitCode != nil {
		out.ExitCode = *run.ExitCode
	}
	if run.Shell != nil {
		out.Cwd, out.Shell, out.Program = run.Shell.Cwd, run.Shell.State, run.Shell.Program
	} else if session, err := c.Sessions().Get(c.r.Context(), c.id); err == nil { // the command never began
		out.Cwd = cmp.Or(session.Cwd, out.Cwd)
	}
	switch {
	case run.StartedAt == nil || run.FinishedAt == nil:
	case run.ResourceUsage != nil:
		out.DurationMS = int64(math.Round(run.ResourceUsage.WallTimeSec * 1000))
	default:
		out.DurationMS = run.FinishedAt.Sub(*run.StartedAt).Milliseconds()
	}
	return out
}

// start starts a command.
func (c *call) start(in shellCommand) (belljar.Run, error) {
	timeout := 0.0
	if ms := in.TimeoutMS; ms != nil {
		if timeout = *ms / 1000; *ms < 1 || *ms != math.Trunc(*ms) {
			e := api.Refuse("timeout_ms", "timeout_ms must be a whole number of milliseconds, at least 1, got %v", *ms)
			e.Details["provided"] = *ms
			e.Hint = "leave it out for the session's timeout"
			return belljar.Run{}, e
		}
	}
	run, err := c.Runs().Start(c.r.Context(), belljar.RunRequest{
		RunSpec: belljar.RunSpec{
			SpecVersion: belljar.SpecVersion, SessionID: c.id, TimeoutSec: timeout, Stdin: in.Stdin,
			Shell: &belljar.ShellCommand{Cmd: in.Cmd, Separate: in.Separate},
		},
		IdempotencyKey: c.r.Header.Get("Idempotency-Key"),
	})
	if err != nil {
		return run, api.InUnit(api.Renamed(err, map[string]string{"shell.cmd": "cmd"}), "timeout_sec", "timeout_ms", "milliseconds", 1000)
	}
	c.w.Header().Set(runHeader, run.ID)
	return run, nil
}

// exec runs a command to its end.
func (c *call) exec() error {
	var in command
	if err := c.decode(maxCommand, &in); err != nil {
		return err
	}
	return c.finish(shellCommand{command: in})
}

// execStream runs a command and streams its output.
func (c *call) execStream() error {
	var in command
	if err := c.decode(maxCommand, &in); err != nil {
		return err
	}
	return c.follow(shellCommand{command: in})
}

// shell is exec or, if the client accepts events, execStream, with more options.
func (c *call) shell() error {
	if _, err := api.Query(c.r); err != nil {
		return err
	}
	var in shellCommand
	if err := c.decode(maxCommand, &in); err != nil {
		return err
	}
	if strings.Contains(c.r.Header.Get("Accept"), "text/event-stream") {
		return c.follow(in)
	}
	return c.finish(in)
}

// finish responds after the command has ended. The command continues if the client disconnects.
func (c *call) finish(in shellCommand) error {
	run, err := c.start(in)
	if err != nil {
		return err
	}
	replay := run.Details
	if replay != nil { // a request that is repeated often must not read its output each time at once
		if run, err = api.AwaitEnd(c.r.Context(), c.Runs(), run.ID, math.MaxInt64); err != nil {
			return err
		}
		release, err := c.reserve(api.OutputSize(run))
		if err != nil {
			return err
		}
		defer release()
	}
	run, output, err := belljar.Collect(c.r.Context(), c.Runs(), run.ID)
	if err != nil {
		return err
	}
	out := c.resultOf(run)
	out.Details = replay
	out.Truncated = out.Truncated || output.StdoutTruncated || output.StderrTruncated
	if in.Separate {
		out.Output = &output
	} else {
		text := output.Stdout
		if output.StdoutEncoding == output.StderrEncoding {
			text += output.Stderr // the agent's error if it could not start the command
		}
		out.Text, out.OutputEncoding = &text, output.StdoutEncoding
	}
	api.WriteJSON(c.w, http.StatusOK, out)
	return nil
}
