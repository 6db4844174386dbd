package stream

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// output is the part of a run's output that a download contains: stdout, stderr or both.
type output string

// has reports whether it includes frames of a type.
func (o output) has(t belljar.FrameType) bool {
	switch t {
	case belljar.FrameStdout, belljar.FrameStderr:
		return o == "both" || string(o) == string(t)
	}
	return false
}

// logRequest is a request for a log.
type logRequest struct {
	sse    bool
	plain  output // "" for envelopes
	from   start
	follow bool
}

func parseLogRequest(r *http.Request) (logRequest, error) {
	var req logRequest
	q, err := api.Query(r, "from_seq", "since_seq", "follow", "format", "stream", "token", "exp")
	if err != nil {
		return req, err
	}
	req.sse = strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	if req.from, err = startOf(q, 0); err != nil {
		return req, err
	}
	if last := r.Header.Get("Last-Event-ID"); req.sse && last != "" {
		if req.from, err = startOf(url.Values{"since_seq": {last}}, 0); err != nil {
			return req, api.Refuse("Last-Event-ID", "Last-Event-ID %.40q is not a sequence number", last)
		}
	}
	follow, given, err := single(q, "follow")
	switch follow {
	case "true", "1":
		req.follow = true
	case "false", "0":
	case "":
		req.follow = req.sse && !given
	default:
		err = api.Refuse("follow", "follow %q is neither true nor false", follow)
	}
	if err != nil {
		return req, err
	}
	req.plain, err = parseOutput(q, req.sse)
	return req, err
}

// parseOutput reads format= and stream=. The result is "" for envelopes.
func parseOutput(q url.Values, sse bool) (output, error) {
	format, _, err := single(q, "format")
	if err != nil {
		return "", err
	}
	stream, given, err := single(q, "stream")
	switch {
	case err != nil:
		return "", err
	case format != "" && format != "text" && format != "json":
		return "", api.Refuse("format", "format %q is neither text nor json", format)
	case sse && format == "text":
		return "", api.Refuse("format", "events are json, format=text is not")
	case !sse && format != "json" && (stream == "stdout" || stream == "stderr"):
		return output(stream), nil
	case given && (sse || format == "json"):
		return "", api.Refuse("stream", "stream is for text, json has both")
	case given:
		return "", api.Refuse("stream", "stream %q is neither stdout nor stderr", stream)
	case sse || format == "json":
		return "", nil
	}
	return "both", nil
}

// mime returns the media type of the answer.
func (a logRequest) mime() string {
	switch {
	case a.sse:
		return "text/event-stream"
	case a.plain == "":
		return "application/x-ndjson"
	}
	return "text/plain; charset=utf-8"
}

// logs answers GET /runs/{id}/logs.
func (d *Door) logs(w http.ResponseWriter, r *http.Request) {
	if err := d.serveLogs(w, r); err != nil {
		api.Fail(w, r, err)
	}
}

// serveLogs serves a log to its end. It returns an error only before it has written anything; later it cuts the connection, so
// that no client takes half a log for a complete one.
func (d *Door) serveLogs(w http.ResponseWriter, r *http.Request) error {
	req, err := parseLogRequest(r)
	if err != nil {
		return err
	}
	caller := api.CallerOf(r.Context())
	runs := d.opts.Engine.As(caller).Runs()
	run, err := runs.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	release, err := d.admit(caller.ID)
	if err != nil {
		return err
	}
	defer release()

	p := &logWriter{outlet: d.newOutlet(w, req.sse), req: req, run: run, caller: caller, out: newOutbox()}
	p.outlet.record = p.record
	h := w.Header()
	h.Set("Content-Type", req.mime())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	h.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return nil
	}
	share := d.shares.join(run.ID)
	defer d.shares.leave(share)
	f := &feed{runs: runs, id: run.ID, from: req.from, plain: req.plain, out: p.out, share: share, buffers: &d.buffers}
	if !req.follow && !run.Phase.Terminal() {
		if f.until = run.LastSeq; f.until == 0 {
			return nil // the log is empty
		}
	}
	return p.serve(r.Context(), f)
}

// logWriter writes a log to one reader over plain HTTP.
type logWriter struct {
	outlet
	req    logRequest
	run    belljar.Run
	caller belljar.Caller
	out    *outbox
}

// serve writes what the feed reads until the log's end.
func (p *logWriter) serve(ctx context.Context, f *feed) error {
	ctx, cancel := context.WithCancel(ctx)
	var feeding sync.WaitGroup
	feeding.Go(func() { f.run(ctx) })
	defer feeding.Wait()
	defer cancel()

	opened := time.Now()
	p.record(event.Event{Name: event.StreamOpened})
	cause, err := p.write(ctx)
	p.record(event.Event{Name: event.StreamClosed, Reason: cause, Took: time.Since(opened), Count: p.sent})
	switch {
	case cause == causeEnd, cause == causeShutdown && p.req.sse: // a browser reconnects automatically
		return nil
	case !p.begun && cause == causeError:
		return err
	case cause == causeError:
		p.door.log.Error("log could not be read", "run_id", p.run.ID, "user_id", p.caller.ID, "err", err)
	}
	cancel()
	feeding.Wait()
	panic(http.ErrAbortHandler)
}

// write sends until the log's end, and returns why it stopped.
func (p *logWriter) write(ctx context.Context) (cause string, err error) {
	if p.req.follow && !p.run.Phase.Terminal() {
		// Send the headers immediately: the client waits for them.
		if !p.send(nil, "") {
			return causeGone, nil
		}
	}
	alive := time.NewTicker(p.door.opts.PingEvery)
	defer alive.Stop()
	var spare []message
	for {
		select {
		case <-ctx.Done():
			return causeGone, nil
		case <-p.door.drain.Closing().Done():
			return causeShutdown, nil
		case <-alive.C:
			if p.req.sse && !p.send(nil, stillHere) {
				return causeGone, nil
			}
		case <-p.out.ready:
			items, over, err := p.out.take(spare)
			if len(items) > 0 && !p.send(items, "") {
				return causeGone, nil
			}
			clear(items)
			spare = items
			switch {
			case over && err != nil && ctx.Err() != nil:
				return causeGone, nil
			case over && err != nil:
				return causeError, err
			case over && !p.begun && p.req.sse:
				p.w.WriteHeader(http.StatusNoContent) // a browser does not reconnect after it
				return causeEnd, nil
			case over:
				return causeEnd, nil
			}
		}
	}
}

// send writes a batch, or a comment, in one piece; false if that fails.
func (p *logWriter) send(items []message, comment string) bool {
	pooled := p.door.buffers.get()
	defer p.door.buffers.put(pooled)
	buf := pooled.buf
	for _, m := range items {
		switch {
		case p.req.sse:
			buf = appendEvent(buf, m)
		case p.req.plain == "":
			buf = append(append(buf, m.data...), '\n')
		default:
			buf = append(buf, m.data...)
		}
		p.door.buffers.put(m.pooled)
		if m.kind == belljar.FrameHeartbeat {
			p.record(event.Event{Name: event.HeartbeatSent})
		}
	}
	buf = append(buf, comment...)
	pooled.buf = buf
	return p.push(buf)
}

func (p *logWriter) record(e event.Event) {
	e.Caller, e.Run, e.Runtime, e.Component = p.caller, &p.run, p.run.Runtime, "log"
	if p.req.sse {
		e.Component = "sse"
	}
	p.door.opts.Events.Record(e)
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
