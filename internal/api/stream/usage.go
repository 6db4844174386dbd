package stream

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// firstSample limits the wait of a request for one sample.
const firstSample = 3 * time.Second

// watched returns the samples of a run, or of a session.
type watched func(of belljar.Usages, ctx context.Context, id string) iter.Seq2[belljar.UsageSample, error]

// usage answers GET …/usage: server-sent events, or one sample.
func (d *Door) usage(of watched) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := api.Query(r, "token"); err != nil {
			api.Fail(w, r, err)
			return
		}
		caller := api.CallerOf(r.Context())
		release, err := d.admit(caller.ID)
		if err != nil {
			api.Fail(w, r, err)
			return
		}
		defer release()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		samples := func(ctx context.Context) iter.Seq2[belljar.UsageSample, error] {
			return of(d.opts.Engine.As(caller).Usage(), ctx, r.PathValue("id"))
		}
		w.Header().Set("Cache-Control", "no-store")
		if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			d.oneSample(ctx, w, r, samples)
			return
		}
		u := &usageWriter{outlet: d.newOutlet(w, true), r: r, caller: caller}
		u.outlet.record = u.record
		u.serve(ctx, cancel, samples(ctx))
	}
}

// oneSample answers with the next sample.
func (d *Door) oneSample(ctx context.Context, w http.ResponseWriter, r *http.Request, samples func(context.Context) iter.Seq2[belljar.UsageSample, error]) {
	ctx, cancel := context.WithTimeout(ctx, firstSample)
	defer cancel()
	none := &belljar.Error{Code: belljar.CodeConflict, Message: "it has ended", Hint: "a run that has ended has resource_usage"}
	for sample, err := range samples(ctx) {
		switch {
		case err == nil:
			api.WriteJSON(w, http.StatusOK, sample)
			return
		case errors.Is(err, context.DeadlineExceeded):
			none.Message, none.Hint = "it has no sandbox yet", "try again when it runs"
		default:
			api.Fail(w, r, err)
			return
		}
	}
	api.Fail(w, r, none)
}

// usageWriter sends samples as events. It starts the response with the first sample or ping; until then an error has a response of its
// own.
type usageWriter struct {
	outlet
	r      *http.Request
	caller belljar.Caller
}

// read is a sample, or the error at the end. over with a nil error means that the run or session has ended.
type read struct {
	sample belljar.UsageSample
	err    error
	over   bool
}

func (u *usageWriter) serve(ctx context.Context, cancel func(), samples iter.Seq2[belljar.UsageSample, error]) {
	opened := time.Now()
	u.record(event.Event{Name: event.StreamOpened})
	cause := causeGone
	defer func() {
		u.record(event.Event{Name: event.StreamClosed, Reason: cause, Took: time.Since(opened), Count: u.sent})
	}()
	next := make(chan read)
	var reading sync.WaitGroup
	reading.Go(func() {
		pass := func(v read) bool {
			select {
			case next <- v:
				return true
			case <-ctx.Done():
				return false
			}
		}
		for sample, err := range samples {
			if !pass(read{sample, err, err != nil}) || err != nil {
				return
			}
		}
		pass(read{over: true})
	})
	defer reading.Wait()
	defer cancel()
	alive := time.NewTicker(u.door.opts.PingEvery)
	defer alive.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := api.Revoked(ctx); err != nil && !u.begun {
				api.Fail(u.w, u.r, err)
				cause = causeRevoked
			}
			return
		case <-u.door.drain.Closing().Done(): // a browser reconnects automatically
			if _, err := u.door.drain.Enter(); err != nil && !u.begun {
				api.Fail(u.w, u.r, err)
			}
			cause = causeShutdown
			return
		case <-alive.C:
			if !u.send([]byte(stillHere)) {
				return
			}
		case v := <-next:
			switch {
			case v.err != nil && !u.begun:
				api.Fail(u.w, u.r, v.err)
				cause = causeError
				return
			case v.err != nil:
				e, _ := api.Explain(u.r.Context(), v.err)
				_, body := api.Body("", e)
				u.event("error", body)
				cause = causeError
				return
			case v.over:
				u.event("end", struct{}{})
				cause = causeEnd
				return
			case !u.event("usage", v.sample):
				return
			}
		}
	}
}

func (u *usageWriter) event(name string, data any) bool {
	raw, err := json.Marshal(data)
	if err != nil {
		u.door.log.Error("usage cannot be encoded", "err", err)
		return false
	}
	return u.send(appendEvent(nil, message{kind: belljar.FrameType(name), data: raw, note: true}))
}

// send writes a piece. It reports false if that fails, or nothing more is to be sent: the response to a HEAD request ends with the
// first piece.
func (u *usageWriter) send(piece []byte) bool {
	if !u.begun {
		h := u.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no")
	}
	return u.push(piece) && u.r.Method != http.MethodHead
}

func (u *usageWriter) record(e event.Event) {
	e.Caller, e.Component, e.Kind = u.caller, "sse", "usage"
	u.door.opts.Events.Record(e)
}
