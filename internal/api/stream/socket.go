package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// socket is one reader of a run over a WebSocket. Three goroutines work on it: the feed reads the log, listen reads the client's
// messages, and serve, the only one that writes, ends the connection.
type socket struct {
	door   *Door
	caller belljar.Caller
	run    belljar.Run
	stdin  belljar.Stdin // nil if the run takes no input, or has ended
	conn   *websocket.Conn
	wire   *wire
	out    *outbox
	inputs chan struct{} // one token for each input message of the run
	signed bool          // it was opened with a signed URL, which only reads

	workers  sync.WaitGroup
	ending   chan closeReason // the first reason for the end of the connection
	blocked  atomic.Bool      // listen waits until the program reads
	pinged   atomic.Bool      // a ping has no pong yet
	received atomic.Int64     // number of the client's messages

	next       uint64 // seq of the first frame that is not written
	last       uint64 // seq of the latest frame for the reader; without one, of its neighbour
	stdinNoted bool   // the note stdin_closed was written
	spare      []message
}

// webSocket answers GET /runs/{id}/stream.
func (d *Door) webSocket(w http.ResponseWriter, r *http.Request) {
	if err := d.serveSocket(w, r); err != nil {
		api.Fail(w, r, err)
	}
}

// serveSocket serves a WebSocket to its end. After an error the request was not upgraded.
func (d *Door) serveSocket(w http.ResponseWriter, r *http.Request) error {
	caller := api.CallerOf(r.Context())
	if err := api.RequireWebSocket(w, r, ", or ask for …/logs"); err != nil {
		return err
	}
	if err := d.opts.Connect(r); err != nil {
		return err
	}
	query, err := api.Query(r, "from_seq", "since_seq", "token", "exp")
	if err != nil {
		return err
	}
	runs := d.opts.Engine.As(caller).Runs()
	run, err := runs.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	from, err := startOf(query, run.ResumeFromSeq)
	if err != nil {
		return err
	}
	release, err := d.admit(caller.ID)
	if err != nil {
		return err
	}
	defer release()

	s := &socket{door: d, caller: caller, run: run, out: newOutbox(), ending: make(chan closeReason, 1), next: from.seq}
	s.last = max(1, min(run.LastSeq, from.seq-1))
	s.signed = strings.HasPrefix(query.Get("token"), signedPrefix)
	if run.Interactive && !run.Phase.Terminal() {
		s.stdin, err = runs.Stdin(r.Context(), run.ID)
		switch {
		case belljar.CodeOf(err) == belljar.CodeConflict: // it has ended since Get
			s.stdin = nil
		case err != nil:
			return err
		default:
			defer s.stdin.Close()
		}
	}
	s.conn, s.wire, err = d.upgrade(w, r, s.recordSlow)
	if err != nil {
		d.log.Debug("websocket was not accepted", "run_id", run.ID, "err", err)
		return nil // the library has answered
	}
	defer s.conn.CloseNow()
	s.conn.SetReadLimit(maxInput)

	defer d.track(s.wire)()
	share := d.shares.join(run.ID)
	defer d.shares.leave(share)
	s.inputs = share.inputs
	begun := time.Now()
	s.record(event.Event{Name: event.StreamOpened})
	v := s.serve(r.Context(), &feed{runs: runs, id: run.ID, from: from, out: s.out, share: share, buffers: &d.buffers})
	s.record(event.Event{Name: event.StreamClosed, Reason: v.cause, Took: time.Since(begun), Count: s.wire.bytes()})
	return nil
}

// serve runs the three goroutines until one of them ends the connection, and returns the reason.
func (s *socket) serve(ctx context.Context, f *feed) closeReason {
	ctx, cancel := context.WithCancel(ctx)
	s.workers.Go(func() { f.run(ctx) })
	s.workers.Go(func() {
		s.end(s.listen(ctx))
		s.wire.bound(closeTime) // a write in progress must not delay the end
	})
	v := s.write()
	if err := api.Revoked(ctx); err != nil {
		v = closeReason{closeUnauthorized, err.Error(), causeRevoked}
	}
	if v.cause != causeGone {
		s.wire.boundClose(closeTimeOf(v))
		_ = s.conn.Close(v.code, v.reason) // best effort: the client may be gone
	}
	_ = s.conn.CloseNow()
	cancel()
	if s.stdin != nil {
		_ = s.stdin.Close() // ends a write in progress
	}
	s.workers.Wait()
	return v
}

// closeTimeOf returns the bound of the closing handshake. Only at the end of the log does a reader get extra time.
func closeTimeOf(v closeReason) time.Duration {
	if v.cause == causeEnd {
		return slowGrace
	}
	return closeTime
}

// end ends the connection, unless it has a reason already.
func (s *socket) end(v closeReason) {
	select {
	case s.ending <- v:
	default:
	}
}

// closeUnauthorized is the close code for credentials that were revoked.
const closeUnauthorized websocket.StatusCode = 4001

// The causes of the end of a connection, for the metrics.
const (
	causeEnd      = "end"
	causeGone     = "client"
	causeShutdown = "shutdown"
	causeSlow     = "slow"
	causeSilent   = "silent"
	causeProtocol = "protocol"
	causeError    = "error"
	causeRevoked  = "revoked"
)

// write sends messages and pings until the connection ends.
func (s *socket) write() closeReason {
	ping := time.NewTicker(s.door.opts.PingEvery)
	defer ping.Stop()
	var closed <-chan struct{}
	if s.stdin != nil {
		closed = s.stdin.Closed()
	}
	for {
		select {
		case v := <-s.ending:
			if v.cause == causeSilent {
				v.reason += ", resume with from_seq=" + s.position()
			}
			return v
		case <-s.door.drain.Closing().Done():
			return s.shutdown()
		case <-ping.C:
			if !s.blocked.Load() && s.pinged.CompareAndSwap(false, true) {
				s.workers.Go(s.ping)
			}
		case <-closed:
			closed = nil
			if v, ok := s.send(nil, true); !ok {
				return v
			}
		case <-s.out.ready:
			items, over, err := s.out.take(s.spare)
			if v, ok := s.send(items, false); !ok {
				return v
			}
			clear(items)
			s.spare = items
			switch {
			case over && err == nil:
				return closeReason{websocket.StatusNormalClosure, "end of log", causeEnd}
			case over && errors.Is(err, context.Canceled): // the server's own context
				return s.shutdown()
			case over:
				s.door.log.Error("log could not be read", "run_id", s.run.ID, "user_id", s.caller.ID, "err", err)
				return closeReason{websocket.StatusInternalError, "internal error, resume with from_seq=" + s.position(), causeError}
			}
		}
	}
}

func (s *socket) shutdown() closeReason {
	return closeReason{websocket.StatusGoingAway, "server is shutting down, resume with from_seq=" + s.position(), causeShutdown}
}

// position returns the from_seq with which the reader can resume.
func (s *socket) position() string {
	if s.next == belljar.Tail {
		return "tail"
	}
	return fmt.Sprint(s.next)
}

// send writes a batch, after the note stdin_closed if closed is set. The note comes before the end event at the latest.
func (s *socket) send(items []message, closed bool) (closeReason, bool) {
	size := 0
	for _, m := range items {
		size += len(m.data) + 16
	}
	s.wire.startBatch(size)
	err := s.writeBatch(items, closed)
	if flushed := s.wire.flush(); err == nil {
		err = flushed
	}
	switch {
	case s.wire.isSlow():
		return closeReason{websocket.StatusTryAgainLater, "slow reader, resume with from_seq=" + s.position(), causeSlow}, false
	case err != nil:
		return closeReason{cause: causeGone}, false
	}
	return closeReason{}, true
}

func (s *socket) writeBatch(items []message, closed bool) error {
	if closed {
		if err := s.noteStdinClosed(); err != nil {
			return err
		}
	}
	for _, m := range items {
		if m.event == belljar.EventEnd {
			if err := s.noteStdinClosed(); err != nil {
				return err
			}
		}
		err := s.conn.Write(context.Background(), websocket.MessageText, m.data)
		s.door.buffers.put(m.pooled)
		if err != nil {
			return err
		}
		if !m.note {
			s.last, s.next = m.seq, m.seq+1
		}
		if m.kind == belljar.FrameHeartbeat {
			s.record(event.Event{Name: event.HeartbeatSent})
		}
	}
	return nil
}

// noteStdinClosed writes, once, the note that the program's input is closed, with the reason.
func (s *socket) noteStdinClosed() error {
	if s.stdin == nil || s.stdinNoted {
		return nil
	}
	s.stdinNoted = true
	reason := cmp.Or(s.stdin.Reason(), "run_ended")
	data := map[string]any{"reason": reason}
	if in, ok := s.stdin.(interface{ Refusal() error }); ok {
		var e *belljar.Error
		if errors.As(in.Refusal(), &e) && e.Hint != "" { // a limit
			data["maximum"], data["message"], data["hint"] = e.Details["maximum"], e.Message, e.Hint
		}
	}
	m, err := noteOf(belljar.Frame{Seq: s.last, Type: belljar.FrameEvent, Event: belljar.EventStdinClosed, Data: data})
	if err != nil {
		return err
	}
	return s.conn.Write(context.Background(), websocket.MessageText, m.data)
}

// ping drops the reader if it does not answer.
func (s *socket) ping() {
	defer s.pinged.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), 3*s.door.opts.PingEvery)
	defer cancel()
	received := s.received.Load()
	err := s.conn.Ping(ctx)
	// A pong may wait after input that the server does not read, or the ping after output that the reader does not take.
	if err != nil && ctx.Err() != nil && s.received.Load() == received && !s.blocked.Load() && !s.wire.busy() {
		s.record(event.Event{Name: event.StreamDropped, Reason: causeSilent})
		s.end(closeReason{websocket.StatusTryAgainLater, "no pong", causeSilent})
	}
}

// recordSlow records that a slow reader is dropped.
func (s *socket) recordSlow() {
	s.record(event.Event{Name: event.StreamDropped, Reason: causeSlow})
}

func (s *socket) record(e event.Event) {
	e.Caller, e.Run, e.Runtime, e.Component = s.caller, &s.run, s.run.Runtime, "ws"
	s.door.opts.Events.Record(e)
}
