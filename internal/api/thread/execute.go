package thread

import (
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// execution is the request body of execute.
type execution struct {
	SessionID string   `json:"session_id,omitempty"`
	Command   string   `json:"command,omitempty"`
	Timeout   *float64 `json:"timeout,omitempty"` // seconds
}

// DefaultTimeout is the time of a command without a timeout.
const DefaultTimeout = 30 * time.Second

const (
	shownCommand = 200                  // characters of a refused command in the response
	timedOut     = 124                  // exit code after a timeout, as of timeout(1)
	forever      = 365 * 24 * time.Hour // longer than any command: its timeout ends the wait
)

// execute runs a command to its end. It is cancelled if the client disconnects.
func (c *call) execute() {
	var in execution
	if !c.decode(&in) || !c.required([2]string{"session_id", in.SessionID}) || !c.pass(in) {
		return
	}
	limit := c.door.opts.Timeout.Seconds()
	if in.Timeout != nil {
		limit = *in.Timeout
	}
	if limit <= 0 || math.IsNaN(limit) || math.IsInf(limit, 0) {
		api.WriteJSON(c.w, http.StatusBadRequest, fault{"error": "timeout must be more than 0"})
		return
	}
	begun := c.door.opts.Now()
	run, out, err := belljar.Finish(c.r.Context(), c.service.Runs(), belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: in.SessionID, Command: []string{"bash", "-c", in.Command}, TimeoutSec: limit,
		Cwd: ".", // the workspace, not the image's WORKDIR
	}}, forever)
	if c.r.Context().Err() != nil {
		if run.ID != "" {
			c.abandon(run.ID)
		}
		c.left()
		return
	}
	if err == nil && out == nil {
		err = errors.New("a command has no end")
	}
	took := c.door.opts.Now().Sub(begun)
	l := line{session: in.SessionID, command: in.Command, took: took}
	if err != nil {
		l.exit = -1
		c.log("command_failed", l)
		if !c.gone(err, in.SessionID) {
			c.fail(api.Renamed(err, map[string]string{"command[2]": "command", "timeout_sec": "timeout"}))
		}
		return
	}
	answer, code, note := c.outcome(run)
	answer["execution_time_ms"] = took.Milliseconds()
	l.exit = code
	if code == 0 {
		c.log("command_executed", l)
	} else {
		c.log("command_failed", l)
	}
	c.respond(run, *out, answer, note)
}

// pass checks the command with the guard. If it is refused, pass responds and returns false.
func (c *call) pass(in execution) bool {
	if c.door.opts.Guard == nil {
		return c.required([2]string{"command", in.Command})
	}
	err := c.door.opts.Guard.Check(in.Command)
	if err == nil {
		return true
	}
	body := fault{"error": err.Error(), "command": cut(in.Command, shownCommand)}
	var r *refusal
	if errors.As(err, &r) && r.pattern != "" {
		body["forbidden_pattern"] = r.pattern
	}
	c.log("validation_failed", line{session: in.SessionID, command: in.Command, exit: -1, reason: err.Error()})
	api.WriteJSON(c.w, http.StatusBadRequest, body)
	return false
}

// outcome returns the response for a run, except its output: the API's fields, and Belljar's extensions. note is for the end of stderr.
func (c *call) outcome(run belljar.Run) (answer map[string]any, code int, note string) {
	answer = map[string]any{}
	switch {
	case run.Phase == belljar.PhaseTimedOut:
		code, note = timedOut, run.Message
		answer["timed_out"] = true
	case run.ExitCode != nil:
		code = *run.ExitCode
		if run.ReasonCode == belljar.ReasonExecFailed { // bash did not start, and so printed nothing
			note = run.Message
		}
	default:
		code, note = 1, run.Message
	}
	if run.ReasonCode != "" {
		answer["reason_code"] = run.ReasonCode
	}
	answer["exit_code"] = code
	return answer, code, note
}

// cut returns at most n characters of text.
func cut(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}
