package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"mime"
	"net/http"

	"github.com/belljar/belljar"
)

// usages implements [belljar.Usages].
type usages struct{ c *Client }

// Run yields samples of a run's sandbox, about once a second, until the run ends. A broken connection ends it with an error.
func (u usages) Run(ctx context.Context, id string) iter.Seq2[belljar.UsageSample, error] {
	return u.watch(ctx, "runs", id)
}

// Session yields samples of a session's sandbox, in the same way as Run.
func (u usages) Session(ctx context.Context, id string) iter.Seq2[belljar.UsageSample, error] {
	return u.watch(ctx, "sessions", id)
}

func (u usages) watch(ctx context.Context, what, id string) iter.Seq2[belljar.UsageSample, error] {
	return func(yield func(belljar.UsageSample, error) bool) {
		fail := func(err error) { yield(belljar.UsageSample{}, err) }
		resp, err := u.c.open(ctx, request{
			method: http.MethodGet, path: route(what, id, "usage"), header: http.Header{"Accept": {"text/event-stream"}},
		})
		if err != nil {
			fail(err)
			return
		}
		defer resp.Body.Close()
		if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
			fail(unexpected(resp))
			return
		}
		for e, err := range events(resp.Body) {
			var sample belljar.UsageSample
			var body struct {
				Error *belljar.Error `json:"error"`
			}
			switch {
			case err != nil:
			case e.name == "end":
				return
			case e.name == "usage":
				err = json.Unmarshal(e.data, &sample)
			case e.name == "error":
				if err = json.Unmarshal(e.data, &body); err == nil && body.Error != nil {
					fail(body.Error)
					return
				}
			}
			if err != nil {
				fail(callerError(u.c.transportError(ctx, "the usage broke off", err)))
				return
			}
			if e.name == "usage" && !yield(sample, nil) {
				return
			}
		}
		fail(callerError(u.c.transportError(ctx, "the usage broke off", io.ErrUnexpectedEOF)))
	}
}
