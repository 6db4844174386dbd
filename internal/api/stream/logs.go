package stream

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// output is what of a run's output a download has.
type output string

// has reports whether a frame is part of it.
func (o output) has(t belljar.FrameType) bool {
	switch t {
	case belljar.FrameStdout, belljar.FrameStderr:
		return o == "both" || string(o) == string(t)
	}
	return false
}

// download is what a request for a log asks for.
type download struct {
	sse    bool
	plain  output // "" for envelopes
	from   start
	follow bool
}

// downloadOf reads the request.
func downloadOf(r *http.Request) (download, error) {
	var ask download
	q, err := api.Query(r, "from_seq", "since_seq", "follow", "format", "stream", "token", "exp")
	if err != nil {
		return ask, err
	}
	ask.sse = strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	if ask.from, err = startOf(q, 0); err != nil {
		return ask, err
	}
	if last := r.Header.Get("Last-Event-ID"); ask.sse && last != "" {
		if ask.from, err = startOf(url.Values{"since_seq": {last}}, 0); err != nil {
			return ask, invalid("Last-Event-ID", "Last-Event-ID %.40q is not a sequence number", last)
		}
	}
	follow, given, err := one(q, "follow")
	switch follow {
	case "true", "1":
		ask.follow = true
	case "false", "0":
	case "":
		ask.follow = ask.sse && !given
	default:
		err = invalid("follow", "follow %q is neither true nor false", follow)
	}
	if err != nil {
		return ask, err
	}
	ask.plain, err = plainOf(q, ask.sse)
	return ask, err
}

// plainOf reads format= and stream=.
func plainOf(q url.Values, sse bool) (output, error) {
	format, _, err := one(q, "format")
	if err != nil {
		return "", err
	}
	stream, given, err := one(q, "stream")
	switch {
	case err != nil:
		return "", err
	case format != "" && format != "text" && format != "json":
		return "", invalid("format", "format %q is neither text nor json", format)
	case sse && format == "text":
		return "", invalid("format", "events are json, format=text is not")
	case !sse && format != "json" && (stream == "stdout" || stream == "stderr"):
		return output(stream), nil
	case given && (sse || format == "json"):
		return "", invalid("stream", "stream is for text, json has both")
	case given:
		return "", invalid("stream", "stream %q is neither stdout nor stderr", stream)
	case sse || format == "json":
		return "", nil
	}
	return "both", nil
}

// mime is the answer's type.
func (a download) mime() string {
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

// serveLogs serves a log to its end. An error means that nothing is written yet; what goes wrong later cuts the
// connection, so that nobody takes half a log for a whole one.
func (d *Door) serveLogs(w http.ResponseWriter, r *http.Request) error {
	ask, err := downloadOf(r)
	if err != nil {
		return err
	}
	caller := api.CallerOf(r.Context())
	runs := d.opts.Engine.As(caller).Runs()
	run, err := runs.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	leave, err := d.enter(caller.ID)
	if err != nil {
		return err
	}
	defer leave()

	p := &page{door: d, w: w, control: http.NewResponseController(w), ask: ask, run: run, caller: caller, out: newOutbox()}
	h := w.Header()
	h.Set("Content-Type", ask.mime())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	h.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return nil
	}
	share := d.shares.join(run.ID)
	defer d.shares.leave(share)
	f := &feed{runs: runs, id: run.ID, from: ask.from, plain: ask.plain, out: p.out, share: share, lend: &d.lend}
	if !ask.follow && !run.Phase.Terminal() {
		if f.until = run.LastSeq; f.until == 0 {
			return nil // nothing was said yet
		}
	}
	return p.serve(r.Context(), f)
}

// page is one reader of a log by plain HTTP.
type page struct {
	door    *Door
	w       http.ResponseWriter
	control *http.ResponseController
	ask     download
	run     belljar.Run
	caller  belljar.Caller
	out     *outbox
	sent    int64
	begun   bool // the answer has begun
}

// serve writes what the feed reads until the log's end.
func (p *page) serve(ctx context.Context, f *feed) error {
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
	case cause == causeEnd, cause == causeShutdown && p.ask.sse: // a browser comes back by itself
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
func (p *page) write(ctx context.Context) (cause string, err error) {
	if p.ask.follow && !p.run.Phase.Terminal() {
		// The client must learn at once that the stream stands.
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
		case <-p.door.closing:
			return causeShutdown, nil
		case <-alive.C:
			if p.ask.sse && !p.send(nil, ": still here\n\n") {
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
			case over && !p.begun && p.ask.sse:
				p.w.WriteHeader(http.StatusNoContent) // tells a browser not to come back
				return causeEnd, nil
			case over:
				return causeEnd, nil
			}
		}
	}
}

// send writes a batch, or a remark, in one piece; false if the reader does not take it.
func (p *page) send(items []message, remark string) bool {
	loan := p.door.lend.lend()
	defer p.door.lend.back(loan)
	buf := loan.buf
	if p.ask.sse && !p.begun {
		buf = append(buf, "retry: 1000\n\n"...)
	}
	for _, m := range items {
		switch {
		case p.ask.sse:
			buf = appendEvent(buf, m)
		case p.ask.plain == "":
			buf = append(append(buf, m.data...), '\n')
		default:
			buf = append(buf, m.data...)
		}
		p.door.lend.back(m.loan)
		if m.kind == belljar.FrameHeartbeat {
			p.record(event.Event{Name: event.HeartbeatSent})
		}
	}
	buf = append(buf, remark...)
	loan.buf = buf
	p.begun = true
	if err := p.control.SetWriteDeadline(time.Now().Add(p.door.opts.WriteTimeout)); err != nil {
		p.door.log.Error("stream without a deadline", "run_id", p.run.ID, "err", err)
		return false
	}
	n, err := p.w.Write(buf)
	p.sent += int64(n)
	if err == nil {
		err = p.control.Flush()
	}
	if isTimeout(err) {
		p.record(event.Event{Name: event.StreamDropped, Reason: causeSlow})
	}
	return err == nil
}

// appendEvent appends a server-sent event. Notes have no id: who comes back asks for what follows the last frame.
func appendEvent(dst []byte, m message) []byte {
	if !m.note {
		dst = append(dst, "id: "...)
		dst = strconv.AppendUint(dst, m.seq, 10)
		dst = append(dst, '\n')
	}
	dst = append(dst, "event: "...)
	dst = append(dst, m.kind...)
	dst = append(dst, "\ndata: "...)
	dst = append(dst, m.data...)
	return append(dst, "\n\n"...)
}

func (p *page) record(e event.Event) {
	e.Caller, e.Run, e.Runtime, e.Component = p.caller, &p.run, p.run.Runtime, "log"
	if p.ask.sse {
		e.Component = "sse"
	}
	p.door.opts.Events.Record(e)
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
