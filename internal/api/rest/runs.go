package rest

import (
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

type runPath struct {
	ID string `path:"run_id" doc:"The run's id"`
}

type startParams struct {
	Idempotent
	Wait string `query:"wait" doc:"How long to wait for the run's end before answering: a number of seconds, a duration such as 30s or 2m, or true for as long as the server allows (10 minutes). If the wait ends first, the answer is 202 with the run's current state" example:"30s"`
}

// startedRun is the response to POST /runs: the run, with both fields for its id, and its output if the request waited.
type startedRun struct {
	RunID string `json:"run_id"`
	belljar.Run
	LogStreamURL string `json:"log_stream_url,omitempty"`
	*belljar.Output
}

// shownRun is a run with the URL of its log.
type shownRun struct {
	belljar.Run
	LogStreamURL string `json:"log_stream_url,omitempty"`
}

// cancellation is the response to a cancellation: the run's state right after it.
type cancellation struct {
	RunID      string         `json:"run_id"`
	Status     string         `json:"status" enum:"canceling,finished"`
	Phase      belljar.Phase  `json:"phase"`
	ExitCode   *int           `json:"exit_code"`
	ReasonCode belljar.Reason `json:"reason_code,omitempty"`
	Message    string         `json:"message,omitempty"`
}

func (d *Door) runs() {
	handle(d, huma.Operation{
		OperationID: "start-run", Method: http.MethodPost, Path: api.Prefix + "/runs", Tags: []string{"runs"},
		Summary: "Start a run",
		Description: "Send base_image for a one-shot run, or session_id for one in a session, and command, or code and its language. " +
			"Answers 202 while the run is queued and 200 otherwise. A run that needs an approval is queued until an operator has decided; its approval says why. With wait the answer is the finished run with stdout and stderr: at most 1 MiB of each, from its beginning and its end.",
	}, d.start)
	handle(d, huma.Operation{
		OperationID: "list-runs", Method: http.MethodGet, Path: api.Prefix + "/runs", Tags: []string{"runs"},
		Summary:     "List runs",
		Description: "The caller's runs, newest first by default.",
	}, func(c *call, p *RunFilter, _ *none) (belljar.RunPage, error) {
		q, err := p.query()
		if err != nil {
			return belljar.RunPage{}, err
		}
		list, err := c.Runs().List(c, q)
		list.Items = filled(list.Items)
		return list, err
	})
	handle(d, huma.Operation{
		OperationID: "get-run", Method: http.MethodGet, Path: api.Prefix + "/runs/{run_id}", Tags: []string{"runs"},
		Summary: "Get a run",
	}, func(c *call, p *runPath, _ *none) (shownRun, error) {
		run, err := c.Runs().Get(c, p.ID)
		return shownRun{Run: run, LogStreamURL: d.streamURL(c, run)}, err
	})
	handle(d, huma.Operation{
		OperationID: "cancel-run", Method: http.MethodPost, Path: api.Prefix + "/runs/{run_id}/cancel", Tags: []string{"runs"},
		Summary: "Cancel a run",
		Description: "Sends TERM to a run's processes and, after a grace period, KILL. Answers at once; the outcome is killed, canceled_by_user. " +
			"Cancelling a run that has ended has no effect and is not an error.",
	}, cancel)
}

func (d *Door) start(c *call, p *startParams, body *belljar.RunSpec) (startedRun, error) {
	wait, err := d.wait(p.Wait)
	if err == nil {
		err = checkVersion(d, body.SpecVersion)
	}
	if err != nil {
		return startedRun{}, err
	}
	if p.Wait == "" && body.Interactive {
		wait = 0 // its client gives it input once it knows its id
	}
	c.releaseBody() // the wait below does not need it
	run, output, err := belljar.Finish(c, c.Runs(), belljar.RunRequest{RunSpec: *body, IdempotencyKey: p.Key, Reread: c.reread(d.opts.Bodies)}, wait)
	if err != nil {
		return startedRun{}, err
	}
	if output == nil && (wait > 0 || run.Phase == belljar.PhaseQueued) {
		c.status = http.StatusAccepted
	}
	return startedRun{RunID: run.ID, Run: run, LogStreamURL: d.streamURL(c, run), Output: output}, nil
}

// wait returns how long a request to start a run waits for its end.
func (d *Door) wait(given string) (time.Duration, error) {
	wait := time.Duration(0)
	switch {
	case given == "true", given == "" && d.opts.Foreground:
		wait = d.opts.MaxWait
	case given != "false" && given != "":
		var err error
		if wait, err = time.ParseDuration(given); err != nil {
			var sec float64
			sec, err = strconv.ParseFloat(given, 64)
			wait = time.Duration(sec * float64(time.Second))
			if !(sec >= 0 && sec <= 1e6) { // NaN too
				wait = -1
			}
		}
		if err != nil || wait < 0 {
			return 0, api.Refuse("wait", "wait must be a duration such as 30s, or true, got %.40q", given)
		}
	}
	if wait > d.opts.MaxWait {
		e := api.Refuse("wait", "wait is limited to %s here, got %s", d.opts.MaxWait, given)
		e.Details["provided"], e.Details["maximum"] = given, d.opts.MaxWait.Seconds()
		return 0, e
	}
	return wait, nil
}

func cancel(c *call, p *runPath, _ *none) (cancellation, error) {
	run, err := c.Runs().Get(c, p.ID)
	if err != nil {
		return cancellation{}, err
	}
	status, run, err := cancelled(c, run)
	if err != nil {
		return cancellation{}, err
	}
	return cancellation{
		RunID: run.ID, Status: status, Phase: run.Phase, ExitCode: run.ExitCode,
		ReasonCode: run.ReasonCode, Message: run.Message,
	}, nil
}

// cancelled cancels a run unless it has ended. It returns the action taken, and the run after it.
func cancelled(c *call, run belljar.Run) (string, belljar.Run, error) {
	if run.Phase.Terminal() {
		return "finished", run, nil
	}
	if err := c.Runs().Cancel(c, run.ID); err != nil {
		return "", run, err
	}
	run, err := c.Runs().Get(c, run.ID)
	if run.Phase.Terminal() && run.ReasonCode != belljar.ReasonCanceledByUser { // its command ended first
		return "finished", run, err
	}
	return "canceling", run, err
}

func (d *Door) streamURL(c *call, run belljar.Run) string {
	if d.opts.StreamURL == nil || run.ID == "" {
		return ""
	}
	return d.opts.StreamURL(c.r, run)
}
