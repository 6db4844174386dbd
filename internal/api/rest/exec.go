package rest

import (
	"cmp"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// An exec is a run in a session, with the field names of docs/compatibility.md#tools: exec_id is the run's id, sandbox_id
// the session's.

// The states of an exec. Completed includes failed commands; see the exit code.
const (
	execCompleted = "completed"
	execRunning   = "running"
)

// Exec is a command for a session (docs/compatibility.md#tools).
type Exec struct {
	Cmd            []string          `json:"cmd" doc:"The program and its arguments; no shell is involved"`
	Cwd            string            `json:"cwd,omitempty" doc:"Working directory, in the workspace; default: /workspace"`
	Env            map[string]string `json:"env,omitempty" doc:"Environment variables; they override the session's"`
	TimeoutSeconds float64           `json:"timeout_seconds,omitempty" minimum:"0.001" doc:"Limit for the command, in seconds; default: the session's timeout"`
	CPUTimeSec     float64           `json:"cpu_time_sec,omitempty" minimum:"0.01" doc:"CPU seconds that all its processes may use in total; default: the session's limit"`
	Stdin          string            `json:"stdin,omitempty" doc:"The command's whole standard input"`
	Stream         bool              `json:"stream,omitempty" doc:"Answer as soon as the command is accepted; its output is read by exec_id"`
	WaitSeconds    *float64          `json:"wait_seconds,omitempty" doc:"How long to wait for the end before answering, in seconds; default: as long as the server allows (10 minutes). If the wait ends first, the status is running"`
}

// Executed is the state of an exec.
type Executed struct {
	ExecID    string `json:"exec_id" doc:"The run's id, which the routes of runs accept, too"`
	SandboxID string `json:"sandbox_id" doc:"The session's id"`
	Status    string `json:"status" enum:"completed,running" doc:"completed once it has ended, whatever the outcome"`
	ExecEnd
	DurationMS *int64 `json:"duration_ms,omitempty" doc:"Milliseconds from the command's start to its end"`
	*belljar.Output
	Details *belljar.Replay `json:"details,omitempty" doc:"Outcome of the request's Idempotency-Key"`
}

// ExecEnd is the result of an exec that has ended.
type ExecEnd struct {
	ExitCode   *int           `json:"exit_code,omitempty" doc:"Its exit status, once it has ended: 128+n if a signal ended it, 125 if it never started"`
	Signal     string         `json:"signal,omitempty" doc:"The signal that ended it"`
	TimedOut   bool           `json:"timed_out,omitempty" doc:"Whether it was ended by its timeout"`
	ReasonCode belljar.Reason `json:"reason_code,omitempty" doc:"Why it did not simply complete"`
	Message    string         `json:"message,omitempty" doc:"What happened, as text"`
	Hint       string         `json:"hint,omitempty" doc:"What to do next"`
}

// endOf returns the result of a run, empty until it has ended.
func endOf(run belljar.Run) ExecEnd {
	if !run.Phase.Terminal() {
		return ExecEnd{}
	}
	return ExecEnd{
		ExitCode: new(run.ExitStatus()), Signal: run.Signal, TimedOut: run.Phase == belljar.PhaseTimedOut,
		ReasonCode: run.ReasonCode, Message: run.Message, Hint: api.HintIn(run, "timeout_seconds"),
	}
}

// executed returns a run as an exec. output is nil unless the request waited for the run.
func executed(run belljar.Run, output *belljar.Output) Executed {
	x := Executed{ExecID: run.ID, SandboxID: run.SessionID, Status: execRunning, ExecEnd: endOf(run), Output: output}
	if run.Phase.Terminal() {
		x.Status = execCompleted
		if ms, ok := run.Took(); ok {
			x.DurationMS = &ms
		}
	}
	return x
}

// ExecPath are the path parameters of an exec.
type ExecPath struct {
	ID     string `path:"session_id" doc:"The session's id"`
	ExecID string `path:"exec_id" doc:"The exec's id"`
}

type execParams struct {
	ID string `path:"session_id" doc:"The session's id"`
	Idempotent
}

// ExecWait is a request to wait for an exec.
type ExecWait struct {
	TimeoutSeconds *float64 `json:"timeout_seconds,omitempty" doc:"How long to wait, in seconds; default: as long as the server allows (10 minutes)"`
}

func (*ExecWait) spare() {}

// ExecWaited is the result of a wait for an exec.
type ExecWaited struct {
	Done bool `json:"done" doc:"Whether it has ended"`
	ExecEnd
}

// ExecCanceled is the state of an exec right after its cancellation.
type ExecCanceled struct {
	ExecID string `json:"exec_id" doc:"The exec's id"`
	Status string `json:"status" enum:"canceling,finished" doc:"canceling if it had not ended, finished if it had"`
	ExecEnd
}

func (d *Door) execs() {
	const path = api.Prefix + "/sessions/{session_id}/exec"
	tags := []string{"sessions"}
	handle(d, huma.Operation{
		OperationID: "exec", Method: http.MethodPost, Path: path, Tags: tags,
		Summary: "Run a command in a session",
		Description: "Waits for the end and answers with the output: at most 1 MiB of each stream, from its beginning and its end. " +
			"With stream, or if the wait ends first, the status is running, and the output is read by exec_id. The command continues if the client disconnects.",
	}, d.exec)
	handle(d, huma.Operation{
		OperationID: "read-exec", Method: http.MethodGet, Path: path + "/{exec_id}", Tags: tags,
		Summary:     "Read an exec's output",
		Description: "Chunks after since_seq, up to max_chunks and about 1 MiB. The next request's since_seq is this answer's next_seq.",
	}, d.readExec)
	handle(d, huma.Operation{
		OperationID: "wait-exec", Method: http.MethodPost, Path: path + "/{exec_id}/wait", Tags: tags,
		Summary: "Wait for an exec's end",
	}, d.waitExec)
	handle(d, huma.Operation{
		OperationID: "cancel-exec", Method: http.MethodPost, Path: path + "/{exec_id}/cancel", Tags: tags,
		Summary:     "Cancel an exec",
		Description: "Sends TERM to all of its processes and, after a grace period, KILL. Answers at once. Cancelling an exec that has ended has no effect and is not an error.",
	}, cancelExec)
}

func (d *Door) exec(c *call, p *execParams, body *Exec) (Executed, error) {
	wait, err := d.waitSeconds("wait_seconds", body.WaitSeconds)
	if err != nil {
		return Executed{}, err
	}
	if body.Stream && !d.opts.Foreground {
		wait = 0
	}
	c.releaseBody() // the wait below does not need it
	run, output, err := belljar.Finish(c, c.Runs(), belljar.RunRequest{RunSpec: body.run(p.ID), IdempotencyKey: p.Key, Reread: c.reread(d.opts.Bodies)}, wait)
	if err != nil {
		return Executed{}, api.Renamed(err, map[string]string{"command": "cmd", "timeout_sec": "timeout_seconds"})
	}
	details := run.Details
	if details != nil && wait == 0 { // for a repeated request the run may have ended since
		if run, err = c.Runs().Get(c, run.ID); err != nil {
			return Executed{}, err
		}
	}
	x := executed(run, output)
	x.Details = details
	return x, nil
}

// run returns the request as a [belljar.RunSpec].
func (x *Exec) run(session string) belljar.RunSpec {
	return belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: session, Command: x.Cmd, Cwd: cmp.Or(x.Cwd, "."), Env: x.Env,
		TimeoutSec: x.TimeoutSeconds, CPUTimeSec: x.CPUTimeSec, Stdin: x.Stdin,
	}
}

// waitSeconds returns the wait that a request sets in seconds.
func (d *Door) waitSeconds(field string, given *float64) (time.Duration, error) {
	if given == nil {
		return d.opts.MaxWait, nil
	}
	most := d.opts.MaxWait.Seconds()
	if sec := *given; sec < 0 || sec > most {
		e := api.Refuse(field, "%s must be from 0 to %v, got %v", field, most, sec)
		e.Details["provided"], e.Details["maximum"] = sec, most
		return 0, e
	}
	return time.Duration(*given * float64(time.Second)), nil
}

// find returns the exec's run if it belongs to the session.
func (p *ExecPath) find(c *call) (belljar.Run, error) {
	run, err := c.Runs().Get(c, p.ExecID)
	if err != nil {
		return belljar.Run{}, err
	}
	if run.SessionID != p.ID {
		return belljar.Run{}, &belljar.Error{
			Code: belljar.CodeNotFound, Message: "the session has no such exec",
			Details: map[string]any{"session_id": p.ID, "exec_id": p.ExecID},
		}
	}
	return run, nil
}

func (d *Door) waitExec(c *call, p *ExecPath, body *ExecWait) (ExecWaited, error) {
	wait, err := d.waitSeconds("timeout_seconds", body.TimeoutSeconds)
	if err != nil {
		return ExecWaited{}, err
	}
	run, err := p.find(c)
	if err != nil {
		return ExecWaited{}, err
	}
	c.releaseBody()
	if !run.Phase.Terminal() {
		if run, err = api.AwaitEnd(c, c.Runs(), run.ID, wait); err != nil {
			return ExecWaited{}, err
		}
	}
	return ExecWaited{Done: run.Phase.Terminal(), ExecEnd: endOf(run)}, nil
}

func cancelExec(c *call, p *ExecPath, _ *none) (ExecCanceled, error) {
	run, err := p.find(c)
	if err != nil {
		return ExecCanceled{}, err
	}
	status, run, err := cancelled(c, run)
	if err != nil {
		return ExecCanceled{}, err
	}
	return ExecCanceled{ExecID: p.ExecID, Status: status, ExecEnd: endOf(run)}, nil
}
