package rest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// ContextList is a session's contexts.
type ContextList struct {
	Items []belljar.Context `json:"items"`
}

// ContextCode is code for a context.
type ContextCode struct {
	Code            string               `json:"code" doc:"The code, at most 1 MiB"`
	Language        string               `json:"language,omitempty" doc:"python, ipython, javascript or bash; the context is made if it does not exist"`
	Replay          bool                 `json:"replay,omitempty" doc:"If the context has lost its interpreter, its earlier code is executed again first, without output"`
	TimeoutSec      float64              `json:"timeout_sec,omitempty" minimum:"0.001" doc:"Limit for the code, in seconds; default: the session's timeout. It is then interrupted, and the variables stay"`
	Stdin           string               `json:"stdin,omitempty" doc:"The whole standard input"`
	Interactive     bool                 `json:"interactive,omitempty" doc:"Whether standard input stays open for the caller, as for any run"`
	Files           []belljar.InlineFile `json:"files,omitempty" doc:"Files to write into the workspace first"`
	CapturePatterns []string             `json:"capture_patterns,omitempty" doc:"Files to keep as artifacts, as glob patterns in the workspace"`
	Labels          map[string]string    `json:"labels,omitempty" doc:"Names and values by which runs are found"`
}

// ContextPrefix is the beginning of code to complete.
type ContextPrefix struct {
	Code string `json:"code" doc:"The code up to the place of completion, at most 1 MiB"`
}

// ResultList lists the results that a run in a context has shown.
type ResultList struct {
	Items     []belljar.Result `json:"items"`
	Truncated bool             `json:"truncated" doc:"Whether results may be missing, because the log was cut"`
}

type contextPath struct {
	ID   string `path:"session_id" doc:"The session's id"`
	Name string `path:"name" doc:"The context's name"`
}

type executeParams struct {
	Idempotent
	ID   string `path:"session_id" doc:"The session's id"`
	Name string `path:"name" doc:"The context's name"`
	Wait string `query:"wait" doc:"How long to wait for the end before answering, as when a run is started" example:"30s"`
}

// addContexts adds the operations about contexts.
func addContexts(d *Door) {
	const of = api.Prefix + "/sessions/{session_id}/contexts"
	tags := []string{"contexts"}
	handle(d, huma.Operation{
		OperationID: "create-context", Method: http.MethodPost, Path: of, Tags: tags,
		Summary: "Start a context in a session",
		Description: "A context is a living interpreter (python, ipython, javascript or bash), whose variables stay from one run to the next. " +
			"One of that name is returned as it is; if its language or cwd is another, the request is refused. Its interpreter ends when it is idle for long; the next code starts a new one.",
	}, func(c *call, p *sessionPath, body *belljar.ContextSpec) (belljar.Context, error) {
		return c.Contexts().Create(c, p.ID, *body)
	})
	handle(d, huma.Operation{
		OperationID: "list-contexts", Method: http.MethodGet, Path: of, Tags: tags,
		Summary: "List a session's contexts", Description: "Sorted by name.",
	}, func(c *call, p *sessionPath, _ *none) (ContextList, error) {
		list, err := c.Contexts().List(c, p.ID)
		return ContextList{filled(list)}, err
	})
	handle(d, huma.Operation{
		OperationID: "get-context", Method: http.MethodGet, Path: of + "/{name}", Tags: tags, Summary: "Get a context",
	}, func(c *call, p *contextPath, _ *none) (found belljar.Context, err error) {
		list, err := c.Contexts().List(c, p.ID)
		if i := slices.IndexFunc(list, func(x belljar.Context) bool { return x.Name == p.Name }); i >= 0 {
			return list[i], nil
		}
		return found, cmp.Or(err, error(&belljar.Error{
			Code: belljar.CodeNotFound, Message: fmt.Sprintf("context %q does not exist", p.Name), Hint: "make it, or send the language with the code",
		}))
	})
	handle(d, huma.Operation{
		OperationID: "execute-code", Method: http.MethodPost, Path: of + "/{name}/execute", Tags: tags,
		Summary: "Execute code in a context",
		Description: "Starts a run like any other, with a log, artifacts and a cancel. Code of one context is executed one after the other. The value of the last expression and " +
			"everything displayed are its results: in the answer if the request waits, as frames of type result in the log, and at GET /runs/{run_id}/results. " +
			"An error ends the run with exit_code 1 and is a result, too. A timeout or a cancel interrupts the code, and the variables stay; context.state is replaced if they are gone.",
	}, func(c *call, p *executeParams, body *ContextCode) (startedRun, error) {
		if err := belljar.CheckContextName("name", p.Name); err != nil {
			return startedRun{}, err
		}
		return d.start(c, &startParams{Idempotent: p.Idempotent, Wait: p.Wait}, body.run(p.ID, p.Name))
	})
	handle(d, huma.Operation{
		OperationID: "complete-code", Method: http.MethodPost, Path: of + "/{name}/complete", Tags: tags,
		Summary:     "Complete code in a context",
		Description: "The names that may follow, from the living interpreter. Each match replaces word, the end of the code. A context that is busy or stopped has none.",
	}, func(c *call, p *contextPath, body *ContextPrefix) (belljar.Completion, error) {
		return c.Contexts().Complete(c, p.ID, p.Name, body.Code)
	})
	handle(d, huma.Operation{
		OperationID: "restart-context", Method: http.MethodPost, Path: of + "/{name}/restart", Tags: tags,
		Summary:     "Restart a context",
		Description: "Cancels its runs, ends the interpreter and everything that its code started, and starts a new one.",
	}, func(c *call, p *contextPath, _ *none) (belljar.Context, error) {
		return c.Contexts().Restart(c, p.ID, p.Name)
	})
	command(d, huma.Operation{
		OperationID: "delete-context", Method: http.MethodDelete, Path: of + "/{name}", Tags: tags,
		Summary: "Delete a context", Description: "Ends it as a restart does. A context that does not exist is no error.",
	}, func(c *call, p *contextPath) error {
		return c.Contexts().Delete(c, p.ID, p.Name)
	})
	handle(d, huma.Operation{
		OperationID: "get-run-results", Method: http.MethodGet, Path: api.Prefix + "/runs/{run_id}/results", Tags: tags,
		Summary: "Get the results of a run in a context",
		Description: "The results so far, at most 16 MiB. They come from the program: never make their HTML part of a page, and show an SVG only as an image. " +
			"Their log is kept as long as any.",
	}, results(d))
}

// run is the code as a run.
func (b *ContextCode) run(session, name string) *belljar.RunSpec {
	return &belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: session, Context: name, Code: b.Code, Language: b.Language, Replay: b.Replay, TimeoutSec: b.TimeoutSec,
		Stdin: b.Stdin, Interactive: b.Interactive, Files: b.Files, CapturePatterns: b.CapturePatterns, Labels: b.Labels,
	}
}

// results returns the results in a run's log, up to its present end. Without a context, or for HEAD, it reads nothing.
func results(d *Door) func(c *call, p *runPath, _ *none) (ResultList, error) {
	return func(c *call, p *runPath, _ *none) (ResultList, error) {
		run, err := c.Runs().Get(c, p.ID)
		reads := run.Context != nil && run.LastSeq > 0 && c.r.Method != http.MethodHead
		if err == nil && reads {
			err = c.reserve(d.opts.Bodies, api.ResultsSize(run))
		}
		if err != nil || !reads {
			return ResultList{Items: []belljar.Result{}}, err
		}
		list, cut, err := belljar.Results(func(yield func(belljar.Frame, error) bool) {
			for f, err := range c.Runs().Frames(c, p.ID, 1) {
				if !yield(f, err) || err != nil || f.Seq >= run.LastSeq {
					return
				}
			}
		})
		return ResultList{filled(list), cut}, err
	}
}
