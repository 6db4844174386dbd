package client

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/belljar/belljar"
)

// runs implements [belljar.Runs].
type runs struct{ c *Client }

// Start starts a run. After a broken connection it retries with the same idempotency key.
//
// Small files are sent in the request. An upload larger than [belljar.MaxInlineBytes], or with entries other than plain
// files, is sent to the workspace of the run's session, or of a new one that ends with the run. A request with an Input
// becomes an interactive run, whose input is sent in the background. Frames and Collect return an error if the program
// could not get all of it. If the request repeats an earlier one, its readers are not read.
func (r runs) Start(ctx context.Context, req belljar.RunRequest) (belljar.Run, error) {
	spec := req.RunSpec
	if req.Input != nil {
		spec.Interactive = true
		spec.SpecVersion = belljar.SpecVersion
		askInput(&spec)
	}
	staged, mine := "", false
	if req.Upload != nil {
		files, rest, err := inline(req.Upload, belljar.MaxInlineBytes-inlined(spec))
		if err != nil {
			return belljar.Run{}, err
		}
		spec.Files = append(files, spec.Files...)
		if rest != nil && spec.Cwd == "" && spec.Shell == nil && spec.Context == "" {
			spec.Cwd = "." // the files' folder, as for files in the request
		}
		switch {
		case rest == nil:
		case spec.SessionID != "":
			err = unpack(ctx, r.c, spec.SessionID, rest)
		default:
			staged, mine, err = r.c.stage(ctx, &spec, rest, req.IdempotencyKey)
		}
		if err != nil {
			return belljar.Run{}, err
		}
	}
	run, replayed, err := r.start(ctx, &spec, req)
	if staged != "" {
		alone := err != nil || !r.c.background(func() { endSession(r.c, run.ID, staged) })
		if alone && mine {
			r.c.discard(staged)
		}
	}
	if err == nil && req.Input != nil && !replayed {
		r.c.feed(run.ID, spec, req.Input)
	}
	return run, err
}

// start sends a request, and lowers its limits of input to the server's maximum if it must. replayed reports that an
// earlier call with the caller's key started the run.
func (r runs) start(ctx context.Context, spec *belljar.RunSpec, req belljar.RunRequest) (run belljar.Run, replayed bool, err error) {
	key := cmp.Or(req.IdempotencyKey, belljar.NewID())
	for {
		var sent delivery
		err := r.c.ask(ctx, request{
			method: http.MethodPost, path: route("runs"), send: spec, sent: &sent,
			query:  url.Values{"wait": {"false"}}, // in case the server waits by default
			header: http.Header{"Idempotency-Key": {key}},
		}, &run)
		if err == nil {
			// After a lost response, and with a key of this call, the earlier request was this one.
			return run, run.Details != nil && run.Details.Status == "replayed" && !sent.lost.Load() && req.IdempotencyKey != "", nil
		}
		if req.Input == nil || !lessInput(spec, &req.RunSpec, err) {
			return belljar.Run{}, false, err
		}
	}
}

// Get returns a run.
func (r runs) Get(ctx context.Context, id string) (belljar.Run, error) {
	var run belljar.Run
	return run, r.c.get(ctx, &run, nil, "runs", id)
}

// List returns the caller's runs.
func (r runs) List(ctx context.Context, q belljar.RunQuery) (belljar.RunPage, error) {
	q.UserID = ""
	var page belljar.RunPage
	return page, r.c.get(ctx, &page, queryOf(q), "runs")
}

// Cancel cancels a run.
func (r runs) Cancel(ctx context.Context, id string) error {
	return r.c.ask(ctx, request{method: http.MethodPost, path: route("runs", id, "cancel")}, nil)
}

// queryOf returns a query's parameters.
func queryOf(q belljar.RunQuery) url.Values {
	v := url.Values{}
	put := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	put("user_id", q.UserID)
	put("phase", string(q.Phase))
	put("runtime", q.Runtime)
	put("base_image", q.BaseImage)
	put("image_digest", q.ImageDigest)
	put("session_id", q.SessionID)
	put("q", q.Q)
	put("started_at_from", stamp(q.StartedFrom))
	put("started_at_to", stamp(q.StartedTo))
	put("finished_at_from", stamp(q.FinishedFrom))
	put("finished_at_to", stamp(q.FinishedTo))
	put("sort", q.Sort)
	paging(v, q.Limit, q.Offset)
	return v
}

func paging(v url.Values, limit, offset int) {
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	if offset > 0 {
		v.Set("offset", strconv.Itoa(offset))
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
